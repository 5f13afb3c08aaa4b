// Passes that check that a module holds the form it claims.
#pragma once

#include "mlir/Pass/Pass.h"

namespace stow {

#define GEN_PASS_DECL
#include "passes/verify/Passes.h.inc"

/// Registers the passes of this folder with the command line.
void registerVerifyPasses();

} // namespace stow
