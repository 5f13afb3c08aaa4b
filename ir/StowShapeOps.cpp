// Types, constraints and folds of constants, views and data movement.
#include "ir/StowShapeOps.h"
#include "ir/OpGroup.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowShapeOps.cpp.inc"

void stow::addShapeOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowShapeOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {
RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }
} // namespace

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getValue().getType());
  return success();
}
OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

Sharings ReshapeOp::getSharings() { return {{SharingKind::View, 0, 0}}; }

/// Runs of the same bytes, the same distance apart. None where the runs end inside a dimension of
/// the other shape, or the part is not row-major.
std::optional<RankedTensorType> ReshapeOp::getViewOfPart(RankedTensorType side,
                                                         RankedTensorType part) {
  Layout layout = layoutOf(part);
  side = withoutPitch(side);
  if (!layout.pitch)
    return side;
  if (!llvm::is_sorted(layout.order) || !layoutOf(side).isRowMajor())
    return std::nullopt;
  int64_t run = 1, pitch = layout.pitch->extent;
  for (int64_t dim = layout.pitch->dim; dim < part.getRank(); ++dim) {
    run *= part.getDimSize(dim);
    pitch *= dim > layout.pitch->dim ? part.getDimSize(dim) : 1;
  }
  int64_t inner = 1; // elements inside dimension `dim`
  for (int64_t dim = side.getRank(); dim-- > 0 && inner < run; inner *= side.getDimSize(dim))
    if (inner * side.getDimSize(dim) == run && pitch % inner == 0) {
      Layout result;
      result.pitch = Layout::Pitch{dim, pitch / inner};
      return withLayout(side, result);
    }
  return std::nullopt;
}
OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getX().getType() == getY().getType())
    return getX();
  if (auto producer = getX().getDefiningOp<ReshapeOp>()) {
    setOperand(producer.getX());
    return getY();
  }
  return {};
}
LogicalResult ReshapeOp::verify() {
  auto x = getX().getType(), y = getY().getType();
  if (x.getNumElements() != y.getNumElements() || x.getElementType() != y.getElementType()) // C1
    return emitOpError() << "expects as many elements of the same type, found " << x << " and "
                         << y;
  return success();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  SmallVector<int64_t> sorted(adaptor.getPermutation());
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, x.getRank()))) // C1
    return emitOptionalError(location, "expects a permutation of ", x.getRank(),
                             " dimensions, found ",
                             llvm::interleaved_array(adaptor.getPermutation()));
  SmallVector<int64_t> shape;
  for (int64_t dim : adaptor.getPermutation())
    shape.push_back(x.getDimSize(dim));
  types.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}
bool TransposeOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}
OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::is_sorted(getPermutation()) && getX().getType() == getY().getType())
    return getX();
  if (auto producer = getX().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> joined;
    for (int64_t dim : getPermutation())
      joined.push_back(producer.getPermutation()[dim]);
    setOperand(producer.getX());
    setPermutation(joined);
    return getY();
  }
  return {};
}

/// A view where each dimension of y has the stride it has in x. Where one of them has gaps the other has
/// the same, or will: those of a dimension with one element say nothing, and such a part is copied.
Sharings TransposeOp::getSharings() {
  Layout from = layoutOf(getX().getType()), to = layoutOf(getY().getType());
  auto dense = [](Layout &layout, RankedTensorType type) {
    const bool isTold = !layout.pitch || type.getDimSize(layout.pitch->dim) > 1;
    layout.pitch.reset();
    return isTold && layout.blocks.empty() && layout.groups <= 1;
  };
  if (!dense(from, getX().getType()) || !dense(to, getY().getType()))
    return {};
  auto strides = [](const Layout &layout, ArrayRef<int64_t> shape) {
    return outerStrides(layout, Shape(shape.begin(), shape.end()));
  };
  auto x = strides(from, getX().getType().getShape()), y = strides(to, getY().getType().getShape());
  for (auto [dim, source] : llvm::enumerate(getPermutation()))
    if (getY().getType().getDimSize(dim) > 1 && y[dim] != x[source])
      return {};
  Sharing view = {SharingKind::View, 0, 0};
  llvm::append_range(view.permutation, getPermutation());
  return {view};
}

LogicalResult ReorderOp::verify() {
  if (!sameLogicalTypes(getX().getType(), getY().getType()))
    return emitOpError() << "changes the logical tensor: " << getX().getType() << " to "
                         << getY().getType();
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty())
    return emitOptionalError(location, "expects at least one input");
  auto first = tensor(adaptor.getInputs().front());
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= first.getRank())
    return emitOptionalError(location, "axis ", axis, " lies outside rank ", first.getRank());
  SmallVector<int64_t> shape(first.getShape());
  shape[axis] = 0;
  for (Value input : adaptor.getInputs()) {
    auto type = tensor(input);
    bool agrees =
        type.getRank() == first.getRank() && type.getElementType() == first.getElementType();
    for (int64_t dim = 0; agrees && dim < first.getRank(); ++dim)
      agrees = dim == axis || type.getDimSize(dim) == first.getDimSize(dim);
    if (!agrees) // C1
      return emitOptionalError(location, "inputs disagree outside axis ", axis, ": ", first,
                               " and ", type);
    shape[axis] += type.getDimSize(axis);
  }
  types.push_back(RankedTensorType::get(shape, first.getElementType()));
  return success();
}
bool ConcatOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}
Sharings ConcatOp::getSharings() {
  Sharings sharings;
  SmallVector<int64_t, 0> starts(getY().getType().getRank(), 0);
  for (auto [number, input] : llvm::enumerate(getInputs())) {
    sharings.push_back({SharingKind::PartOfResult, 0, static_cast<unsigned>(number), starts});
    starts[getAxis()] += tensor(input).getDimSize(getAxis());
  }
  return sharings;
}
SmallVector<int64_t> ConcatOp::getStartsOf(unsigned input) {
  SmallVector<int64_t> starts(getY().getType().getRank(), 0);
  for (Value before : getInputs().take_front(input))
    starts[getAxis()] += tensor(before).getDimSize(getAxis());
  return starts;
}
bool ConcatOp::isInside(unsigned input) {
  auto inside = (*this)->getAttrOfType<DenseI64ArrayAttr>(kInsideAttr);
  return inside && llvm::is_contained(inside.asArrayRef(), static_cast<int64_t>(input));
}
int64_t ConcatOp::getBytesMoved() {
  Bytes copied = 0;
  for (auto [number, input] : llvm::enumerate(getInputs()))
    if (!isInside(number))
      copied += 2 * ownBytesOf(input.getType());
  return copied;
}
double ConcatOp::getFlops() {
  return static_cast<double>(getBytesMoved()) /
         (2 * sizeOf(dtypeOf(getY().getType().getElementType())));
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                        Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  auto starts = adaptor.getStarts(), sizes = adaptor.getSizes();
  bool inside = static_cast<int64_t>(starts.size()) == x.getRank() && starts.size() == sizes.size();
  for (int64_t dim = 0; inside && dim < x.getRank(); ++dim)
    inside = starts[dim] >= 0 && sizes[dim] >= 1 && starts[dim] + sizes[dim] <= x.getDimSize(dim);
  if (!inside) // C1
    return emitOptionalError(location, "box at ", llvm::interleaved_array(starts), " of size ",
                             llvm::interleaved_array(sizes), " lies outside ", x);
  types.push_back(RankedTensorType::get(sizes, x.getElementType()));
  return success();
}
bool SliceOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}
Sharings SliceOp::getSharings() {
  Sharing part = {SharingKind::PartOfOperand, 0, 0};
  llvm::append_range(part.starts, getStarts());
  return {part};
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                      Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  auto before = adaptor.getBefore(), after = adaptor.getAfter();
  if (static_cast<int64_t>(before.size()) != x.getRank() || before.size() != after.size() ||
      llvm::any_of(before, [](int64_t n) { return n < 0; }) ||
      llvm::any_of(after, [](int64_t n) { return n < 0; })) // C1
    return emitOptionalError(location, "expects ", x.getRank(),
                             " non-negative counts before and after");
  SmallVector<int64_t> shape;
  for (auto [extent, low, high] : llvm::zip(x.getShape(), before, after))
    shape.push_back(extent + low + high);
  types.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}
bool PadOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}

LogicalResult BroadcastToOp::verify() {
  auto shape = broadcastShapes(getX().getType().getShape(), getY().getType().getShape());
  if (failed(shape) || ArrayRef<int64_t>(*shape) != getY().getType().getShape() ||
      !commonType(getX().getType().getElementType(), getY().getType().getElementType())) // C1
    return emitOpError() << getX().getType() << " does not broadcast to " << getY().getType();
  return success();
}

} // namespace stow
