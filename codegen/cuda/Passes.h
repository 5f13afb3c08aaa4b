// Passes of the CUDA backend.
#pragma once

#include "mlir/Pass/Pass.h"

namespace stow {

/// stow-kernels-to-nvvm: replaces the module's functions by a gpu.binary with the kernels of their
/// ops.
std::unique_ptr<mlir::Pass> createKernelsToNvvmPass();

/// Replaces exponentials and error functions in f32 by powers of two, which GPUs have an instruction for. Runs on gpu.module,
/// before stow-expand-math.
std::unique_ptr<mlir::Pass> createDeviceMathPass();

namespace cuda {
/// What the backend's row in codegen/Backend.cpp names.
void registerDialects(mlir::DialectRegistry &registry);
void registerPasses();
} // namespace cuda

} // namespace stow
