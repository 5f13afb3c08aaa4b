// Planes in the shared memory of a device (DevicePlanes.cpp).
#pragma once

#include "codegen/kernels/Emit.h"

#include <functional>
#include <optional>

namespace stow {

/// A tensor [image, channel, space...].
struct PlaneTensor {
  Buffer buffer;
  llvm::ArrayRef<int64_t> shape, strides;

  /// Elements of a plane: all of space.
  int64_t plane() const;
};

/// Where a block computes.
struct PlanePlace {
  llvm::SmallVector<mlir::Value> bases; ///< by tensor: its plane's first element in shared memory
  llvm::SmallVector<mlir::Value> at;    ///< the result's place in space, by axis: i32
};

/// Planes that a block reads, or writes, as whole vectors, and what it does with their elements.
class DevicePlanes {
public:
  /// `tensors`: the first `reads` are read, the others, all of one shape, are written. Nothing where
  /// their planes do not lie each in one piece, or not as many as make whole vectors fit.
  static std::optional<DevicePlanes> of(llvm::ArrayRef<PlaneTensor> tensors, size_t reads);

  /// Computes the results at a place, one by one.
  using Body = std::function<llvm::SmallVector<mlir::Value>(const PlanePlace &)>;
  /// All tasks of the kernel. The body reads `getShared`.
  void emit(KernelFrame &frame, Body body);

  /// A tensor's planes in shared memory, one behind the other: from `emit` on.
  const Buffer &getShared(size_t tensor) const { return shared[tensor]; }
  /// Strides of those of `tensor`, whose plane the bases already say.
  llvm::SmallVector<int64_t> sharedStrides(size_t tensor) const;

private:
  bool chooseGroup();
  int64_t lanesOf(size_t tensor, int64_t planes) const;
  int64_t bytesOfPlane() const;
  void copyIn(KernelFrame &frame, mlir::Value thread, llvm::ArrayRef<mlir::Value> bases);
  void compute(KernelFrame &frame, mlir::Value thread, const Body &body);
  void copyOut(KernelFrame &frame, mlir::Value thread, llvm::ArrayRef<mlir::Value> bases);

  llvm::SmallVector<PlaneTensor> tensors;
  size_t reads = 0;
  Space groups;      ///< one access a tensor: its group's first element
  int64_t group = 1; ///< planes of a task
  llvm::SmallVector<Buffer> shared;
};

} // namespace stow
