// Chains of ops that run in chunks, so that what lies between them never exists whole.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/fission/Passes.h.inc"

} // namespace stow
