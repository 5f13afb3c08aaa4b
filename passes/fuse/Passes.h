// Fusion of elementwise ops into generated kernels.
#pragma once

#include "passes/Target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#include "passes/fuse/Passes.h.inc"

/// Registers the passes of this folder that need no target.
void registerFusePasses();

/// `target` must outlive the pass.
std::unique_ptr<mlir::Pass> createFuseProductConsumersPass(const Target &target);
std::unique_ptr<mlir::Pass> createHoistScalarsPass(const Target &target);
std::unique_ptr<mlir::Pass> createJoinSmallMapsPass(const Target &target);
std::unique_ptr<mlir::Pass> createFuseNormPoolPass(const Target &target);
std::unique_ptr<mlir::Pass> createReadCodesPass(const Target &target);
std::unique_ptr<mlir::Pass> createSplitBatchNormPass(const Target &target);
std::unique_ptr<mlir::Pass> createFuseEpiloguesPass(const Target &target);

} // namespace stow
