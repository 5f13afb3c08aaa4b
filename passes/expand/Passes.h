// Ops that the target runs as several, and several that it runs as one. The passes need a target, so they are created
// and registered with one.
#pragma once

#include "passes/Target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

/// `target` must outlive the pass.
std::unique_ptr<mlir::Pass> createBatchProductsPass(const Target &target);
std::unique_ptr<mlir::Pass> createConvolutionBiasPass(const Target &target);

} // namespace stow
