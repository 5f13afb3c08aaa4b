// Which layouts describe the same bytes: what makes a reshape, a transpose or a reorder free.
//
// Only plain layouts take part: an order of the dimensions, without blocks, groups and gaps. The
// order of a tensor is the list of its dimensions, outermost first.
#pragma once

#include "ir/Stow.h"

namespace stow {

/// Dimensions, outermost first.
using Order = llvm::SmallVector<int64_t, 4>;

/// Without blocks, groups and gaps.
bool isPlain(mlir::Type type);

Order rowMajorOrder(int64_t rank);

/// 0, 2, ..., rank - 1, 1: images and sequences with their channels innermost.
Order channelsLastOrder(int64_t rank);

/// The order of a plain type.
Order orderOf(mlir::RankedTensorType type);

/// The type in another order.
mlir::RankedTensorType withOrder(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> order);

/// True when two types of the same shape describe the same bytes: strides differ at most where
/// there is one element.
bool sameBytes(mlir::RankedTensorType a, mlir::RankedTensorType b);

/// Order in which a tensor of `shape` looks at the bytes of a plain `type` with as many elements:
/// what a reshape gives without copying. None where no order does.
std::optional<Order> reshapedOrder(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> shape);

/// Order in which the result of a transpose looks at an operand of the given order, and back.
Order transposedOrder(llvm::ArrayRef<int64_t> order, llvm::ArrayRef<int64_t> permutation);
Order untransposedOrder(llvm::ArrayRef<int64_t> order, llvm::ArrayRef<int64_t> permutation);

} // namespace stow
