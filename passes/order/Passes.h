// Order and recomputation: from the step form to the ordered form.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/order/Passes.h.inc"

} // namespace stow
