// Fusion of elementwise ops into generated kernels.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/fuse/Passes.h.inc"

} // namespace stow
