// Ops that the target runs as several. The pass needs a target, so it is created and registered with
// one.
#pragma once

#include "passes/Target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

/// `target` must outlive the pass.
std::unique_ptr<mlir::Pass> createConvolutionBiasPass(const Target &target);

} // namespace stow
