// Layout assignment. The passes need a target, so they are created and registered with one.
#pragma once

#include "passes/Target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

/// `target` must outlive these passes.
std::unique_ptr<mlir::Pass> createAssignLayoutsPass(const Target &target);
std::unique_ptr<mlir::Pass> createPadLogitsPass(const Target &target);

} // namespace stow
