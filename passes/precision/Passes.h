// Mixed precision. A pass that needs a target is created and registered with one.
#pragma once

#include "passes/Target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#include "passes/precision/Passes.h.inc"

/// Registers the passes of this folder that need no target.
void registerPrecisionPasses();

/// `target` must outlive the pass.
std::unique_ptr<mlir::Pass> createAssignPrecisionPass(const Target &target,
                                                      AssignPrecisionPassOptions options = {});

} // namespace stow
