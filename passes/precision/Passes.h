// Mixed precision. The pass needs a target, so it is created and registered with one.
#pragma once

#include "passes/Target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#include "passes/precision/Passes.h.inc"

/// `target` must outlive the pass.
std::unique_ptr<mlir::Pass> createAssignPrecisionPass(const Target &target,
                                                      AssignPrecisionPassOptions options = {});

} // namespace stow
