// Rewrites of the model that change neither values nor gradients, rounding aside.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/rewrite/Passes.h.inc"

} // namespace stow
