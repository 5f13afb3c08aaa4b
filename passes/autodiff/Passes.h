// Passes that turn a model (F0) into a training step (F1).
#pragma once

#include "mlir/Pass/Pass.h"

#include <cmath>

namespace stow {

#define GEN_PASS_DECL
#include "passes/autodiff/Passes.h.inc"

/// Registers the passes of this folder with the command line.
void registerAutodiffPasses();

} // namespace stow
