// From the placed form to the program an executable runs: commands, state, inputs and outputs.
#pragma once

#include "codegen/kernels/Kernels.h"
#include "runtime/format/Program.h"

#include <string>
#include <vector>

namespace stow::host {

/// A program and what its object file holds besides it.
struct BuiltProgram {
  Program program;
  std::vector<char> constants; ///< initial values; StateTensor::init.dataOffset counts in it
};

/// Translates every graph of the placed `module`; kernels are emitted into `kernels`. `program` of
/// the result has state, graphs and plan filled in. Fails with a diagnostic at the op.
mlir::FailureOr<BuiltProgram> buildProgram(mlir::ModuleOp module, KernelModule &kernels);

} // namespace stow::host
