// What threads of a device move at once, and the memory that those of a block share.
#pragma once

#include "codegen/kernels/Lanes.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <algorithm>
#include <numeric>

namespace stow {

/// Bytes of the widest access of a thread: what a device moves at once.
inline constexpr int64_t kAccessBytes = 16;

/// What the address of every access is a multiple of where accesses begin at multiples of `lanes`
/// elements.
inline int64_t accessAlignment(const Buffer &buffer, int64_t lanes) {
  const int64_t bytes = buffer.elementBytes();
  return std::max(bytes, std::gcd(std::min(kAccessBytes, buffer.alignment), lanes * bytes));
}

/// A tensor in the shared memory of every block of `function`, at a multiple of kAccessBytes: LLVM
/// takes large arrays to be aligned so and merges accesses, while PTX aligns them to an element unless
/// told.
mlir::Value addSharedMemory(mlir::gpu::GPUFuncOp function, llvm::ArrayRef<int64_t> shape,
                            mlir::Type element, mlir::Location location);

/// A tensor in the shared memory that a launch gives to every block (KernelInfo::sharedBytes), `offset` bytes from its start, a
/// multiple of kAccessBytes.
mlir::Value givenSharedMemory(mlir::OpBuilder &builder, mlir::gpu::GPUFuncOp function,
                              int64_t offset, llvm::ArrayRef<int64_t> shape, mlir::Type element,
                              mlir::Location location);

/// Says how many registers a thread may take. Unless it is told ptxas spills a few bytes for the sake of one more
/// block on a multiprocessor.
void allowRegisters(mlir::gpu::GPUFuncOp function, int32_t count);

/// Keeps a loop of a device's kernel as it is written. LLVM and ptxas, which know how often it runs, would
/// write it out and read ahead until registers are spilled.
void keepRolled(mlir::Operation *loop);

} // namespace stow
