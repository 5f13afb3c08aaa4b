// Types and constraints of reading and adding by index, strided boxes, order and running sums.
#include "ir/StowIndexOps.h"
#include "ir/OpGroup.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowIndexOps.cpp.inc"

void stow::addIndexOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowIndexOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult checkAxis(std::optional<Location> location, int64_t axis, RankedTensorType type) {
  if (axis < 0 || axis >= type.getRank())
    return emitOptionalError(location, "axis ", axis, " lies outside rank ", type.getRank());
  return success();
}

/// Constraints C1 and C2 of take_along and scatter_along.
LogicalResult checkIndices(std::optional<Location> location, int64_t axis, RankedTensorType type,
                           RankedTensorType indices) {
  if (failed(checkAxis(location, axis, type))) // C1
    return failure();
  bool fits = indices.getRank() == type.getRank();
  for (int64_t dim = 0; fits && dim < type.getRank(); ++dim)
    fits = dim == axis || indices.getDimSize(dim) == 1 ||
           indices.getDimSize(dim) == type.getDimSize(dim);
  if (!fits) // C2
    return emitOptionalError(location, "expects indices of the extents of ", type,
                             " or 1 outside axis ", axis, ", found ", indices);
  return success();
}

RankedTensorType withExtent(RankedTensorType type, int64_t axis, int64_t extent) {
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = extent;
  return RankedTensorType::get(shape, type.getElementType());
}

/// True when the elements starts + i * steps, i < sizes, exist and lie inside `shape`.
bool liesInside(ArrayRef<int64_t> shape, ArrayRef<int64_t> starts, ArrayRef<int64_t> sizes,
                ArrayRef<int64_t> steps) {
  if (starts.size() != shape.size() || sizes.size() != shape.size() || steps.size() != shape.size())
    return false;
  for (auto [extent, start, size, step] : llvm::zip(shape, starts, sizes, steps)) {
    if (step == 0 || size < 1 || start < 0 || start >= extent)
      return false;
    __int128 last = start + static_cast<__int128>(size - 1) * step;
    if (last < 0 || last >= extent)
      return false;
  }
  return true;
}

} // namespace

#define STOW_INFERRED(OpName)                                                                      \
  bool OpName::isCompatibleReturnTypes(TypeRange left, TypeRange right) {                          \
    return sameLogicalTypes(left, right);                                                          \
  }
STOW_INFERRED(TakeAlongOp)
STOW_INFERRED(StridedSliceOp)
STOW_INFERRED(StridedPadOp)
STOW_INFERRED(TopKOp)
#undef STOW_INFERRED

// Sums may be stored wider than what they are made of.
bool ScatterAlongOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
bool CumSumOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}

LogicalResult TakeAlongOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX()), indices = tensor(adaptor.getIndices());
  int64_t axis = adaptor.getAxis();
  if (failed(checkIndices(location, axis, x, indices)))
    return failure();
  types.push_back(withExtent(x, axis, indices.getDimSize(axis)));
  return success();
}

LogicalResult ScatterAlongOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                               Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto updates = tensor(adaptor.getUpdates()), indices = tensor(adaptor.getIndices());
  int64_t axis = adaptor.getAxis(), extent = adaptor.getExtent();
  if (failed(checkIndices(location, axis, updates, indices)))
    return failure();
  if (indices.getDimSize(axis) != updates.getDimSize(axis)) // C3
    return emitOptionalError(location, "expects as many indices as updates along axis ", axis,
                             ", found ", indices, " for ", updates);
  if (extent < 1) // C4
    return emitOptionalError(location, "expects a positive extent, found ", extent);
  types.push_back(withExtent(updates, axis, extent));
  return success();
}

LogicalResult StridedSliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                               Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  if (!liesInside(x.getShape(), adaptor.getStarts(), adaptor.getSizes(), adaptor.getSteps())) // C1
    return emitOptionalError(location, "box at ", llvm::interleaved_array(adaptor.getStarts()),
                             " of size ", llvm::interleaved_array(adaptor.getSizes()), " in steps ",
                             llvm::interleaved_array(adaptor.getSteps()), " lies outside ", x);
  types.push_back(RankedTensorType::get(adaptor.getSizes(), x.getElementType()));
  return success();
}

LogicalResult StridedPadOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                             Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  if (!liesInside(adaptor.getShape(), adaptor.getStarts(), x.getShape(), adaptor.getSteps())) // C1
    return emitOptionalError(location, x, " at ", llvm::interleaved_array(adaptor.getStarts()),
                             " in steps ", llvm::interleaved_array(adaptor.getSteps()),
                             " lies outside ", llvm::interleaved_array(adaptor.getShape()));
  types.push_back(RankedTensorType::get(adaptor.getShape(), x.getElementType()));
  return success();
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location,
                                       Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  int64_t axis = adaptor.getAxis(), k = adaptor.getK();
  if (failed(checkAxis(location, axis, x)))
    return failure();
  if (k < 1 || k > x.getDimSize(axis)) // C1
    return emitOptionalError(location, "takes ", k, " elements of ", x.getDimSize(axis));
  types.push_back(withExtent(x, axis, k));
  types.push_back(RankedTensorType::get(cast<RankedTensorType>(types[0]).getShape(),
                                        IntegerType::get(context, 64)));
  return success();
}

LogicalResult CumSumOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  if (failed(checkAxis(location, adaptor.getAxis(), x))) // C1
    return failure();
  types.push_back(withoutLayout(x));
  return success();
}

} // namespace stow
