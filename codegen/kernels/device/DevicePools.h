// Pooling on a device: vectors of results (DevicePools.cpp).
#pragma once

#include "codegen/kernels/Pooling.h"

namespace stow {

/// Runs `body` for vectors of all results of a forward op, whose operand is x: adds to `frame.tasks`.
/// `strides` are those of operands and results.
void forDeviceWindows(mlir::Operation *op, KernelFrame &frame,
                      llvm::ArrayRef<llvm::SmallVector<int64_t>> strides, const Pooling &pooling,
                      WindowBody body);

/// The kernel of a gradient, of maxima or means: adds to `frame.tasks`.
void emitDevicePoolGrad(mlir::Operation *op, KernelFrame &frame,
                        llvm::ArrayRef<llvm::SmallVector<int64_t>> strides);

} // namespace stow
