// From the placed form to the program an executable runs: commands, state, inputs and outputs.
#pragma once

#include "codegen/Backend.h"

namespace stow::host {

/// Translates every graph of the placed `module`. Fails with a diagnostic at the op.
mlir::FailureOr<BuiltProgram> buildProgram(mlir::ModuleOp module);

} // namespace stow::host
