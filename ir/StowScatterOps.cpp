#include "ir/StowScatterOps.h"
#include "ir/OpGroup.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowScatterOps.cpp.inc"

void stow::addScatterOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowScatterOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

/// True for equal extents outside `axis`; with `repeats` also for extents of 1 in `type`.
bool fits(RankedTensorType type, RankedTensorType model, int64_t axis, bool repeats) {
  if (type.getRank() != model.getRank())
    return false;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (dim != axis && type.getDimSize(dim) != model.getDimSize(dim) &&
        !(repeats && type.getDimSize(dim) == 1))
      return false;
  return true;
}

/// The type of x: what both ops give.
template <typename Adaptor>
LogicalResult inferScattered(std::optional<Location> location, Adaptor adaptor,
                             SmallVectorImpl<Type> &types) {
  auto x = cast<RankedTensorType>(adaptor.getX().getType());
  auto updates = cast<RankedTensorType>(adaptor.getUpdates().getType());
  auto indices = cast<RankedTensorType>(adaptor.getIndices().getType());
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= updates.getRank()) // C1
    return emitOptionalError(location, "axis ", axis, " lies outside rank ", updates.getRank());
  if (!fits(indices, updates, axis, /*repeats=*/true)) // C2
    return emitOptionalError(location, "expects indices of the extents of ", updates,
                             " or 1 outside axis ", axis, ", found ", indices);
  if (indices.getDimSize(axis) != updates.getDimSize(axis)) // C3
    return emitOptionalError(location, "expects as many indices as updates along axis ", axis,
                             ", found ", indices, " for ", updates);
  if (!fits(x, updates, axis, /*repeats=*/false) ||
      x.getElementType() != updates.getElementType()) // C4
    return emitOptionalError(location, "expects data of the type of ", updates, " outside axis ",
                             axis, ", found ", x);
  types.push_back(RankedTensorType::get(x.getShape(), x.getElementType()));
  return success();
}

} // namespace

#define STOW_SCATTERED(OpName)                                                                     \
  LogicalResult OpName::inferReturnTypes(MLIRContext *, std::optional<Location> location,          \
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {          \
    return inferScattered(location, adaptor, types);                                               \
  }                                                                                                \
  bool OpName::isCompatibleReturnTypes(TypeRange left, TypeRange right) {                          \
    return sameLogicalTypes(left, right);                                                          \
  }

STOW_SCATTERED(ScatterMaxOp)
STOW_SCATTERED(ScatterMulOp)

#undef STOW_SCATTERED

} // namespace stow
