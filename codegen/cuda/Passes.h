// Passes of the CUDA backend.
#pragma once

#include "mlir/Pass/Pass.h"

namespace stow {

/// stow-kernels-to-nvvm: replaces the module's functions by a gpu.binary with the kernels of their
/// ops.
std::unique_ptr<mlir::Pass> createKernelsToNvvmPass();

namespace cuda {
/// What the backend's row in codegen/Backend.cpp names.
void registerDialects(mlir::DialectRegistry &registry);
void registerPasses();
} // namespace cuda

} // namespace stow
