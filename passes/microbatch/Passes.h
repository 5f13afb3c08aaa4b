// A training step over several batches.
#pragma once

#include "mlir/Pass/Pass.h"

namespace stow {

#define GEN_PASS_DECL
#include "passes/microbatch/Passes.h.inc"

/// Registers the passes of this folder.
void registerMicrobatchPasses();

} // namespace stow
