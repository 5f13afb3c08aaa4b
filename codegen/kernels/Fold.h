// Helpers of kernels that fold dimensions of a tensor.
#pragma once

#include "codegen/kernels/Emit.h"

#include "mlir/IR/TypeUtilities.h"

namespace stow {

using Strides = llvm::SmallVector<int64_t>;

/// Splits the space of `type` at `axes` into kept dimensions and folded ones. Every access has
/// strides over all dimensions of the type.
inline std::pair<Space, Space> splitSpace(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> axes,
                                          llvm::ArrayRef<Strides> accesses) {
  Space all = makeSpace(type.getShape(), accesses), kept, axis;
  kept.offsets = axis.offsets = all.offsets;
  for (auto [i, dim] : llvm::enumerate(all.dims))
    (llvm::is_contained(axes, static_cast<int64_t>(i)) ? axis : kept).dims.push_back(dim);
  return {kept, axis};
}

/// The element type folds compute in.
inline mlir::Type computeType(mlir::Type stored) {
  mlir::Type element = mlir::getElementTypeOrSelf(stored);
  return element.getIntOrFloatBitWidth() < 32 ? mlir::Float32Type::get(stored.getContext())
                                              : element;
}

inline Reducer sumOf(mlir::Type element) { return {Reducer::Kind::Sum, element}; }
inline Reducer maxOf(mlir::Type element) { return {Reducer::Kind::Max, element}; }

} // namespace stow
