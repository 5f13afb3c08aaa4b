// Types and constraints of pooling.
#include "ir/StowPoolOps.h"
#include "ir/OpGroup.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowPoolOps.cpp.inc"

void stow::addPoolOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowPoolOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

/// Output type of a pooling window over x [N,C,H,W], or with one or three spatial dimensions.
FailureOr<RankedTensorType> pooledType(std::optional<Location> location, Type xType,
                                       ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides,
                                       ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  auto x = cast<RankedTensorType>(xType);
  if (x.getRank() < 3 || x.getRank() > 5)
    return emitOptionalError(location,
                             "expects x [N,C,H,W], or one or three spatial dimensions, found ", x);
  auto spatial =
      windowOutput(location, x.getShape().drop_front(2), kernel, strides, pads, dilations);
  if (failed(spatial))
    return failure();
  for (size_t i = 0; i < kernel.size(); ++i)
    if (std::max(pads[i], pads[i + kernel.size()]) >= dilations[i] * (kernel[i] - 1) + 1)
      return emitOptionalError(location,
                               "pads must be smaller than the window in spatial dimension ", i);
  SmallVector<int64_t> shape = {x.getDimSize(0), x.getDimSize(1)};
  llvm::append_range(shape, *spatial);
  return RankedTensorType::get(shape, x.getElementType());
}

template <typename Op> LogicalResult verifyPoolGrad(Op op) {
  auto y = pooledType(op.getLoc(), op.getDx().getType(), op.getKernel(), op.getStrides(),
                      op.getPads(), op.getDilations());
  if (failed(y))
    return failure();
  if (!compatibleTypes(*y, op.getDy().getType()))
    return op.emitOpError() << "expects dy of type " << *y << ", found " << op.getDy().getType();
  return success();
}

template <typename Adaptor>
LogicalResult inferPool(std::optional<Location> location, Adaptor adaptor,
                        SmallVectorImpl<Type> &types) {
  auto type = pooledType(location, adaptor.getX().getType(), adaptor.getKernel(),
                         adaptor.getStrides(), adaptor.getPads(), adaptor.getDilations());
  if (failed(type))
    return failure();
  types.push_back(*type);
  return success();
}

} // namespace

LogicalResult MaxPoolOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          Adaptor adaptor, SmallVectorImpl<Type> &types) {
  return inferPool(location, adaptor, types);
}
bool MaxPoolOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}

LogicalResult MaxPoolTrainingOp::verify() {
  auto y =
      pooledType(getLoc(), getX().getType(), getKernel(), getStrides(), getPads(), getDilations());
  if (failed(y))
    return failure();
  if (!compatibleTypes(*y, getY().getType())) // C1
    return emitOpError() << "expects y of type " << *y << ", found " << getY().getType();
  return success();
}

LogicalResult MaxPoolGradOp::verify() { return verifyPoolGrad(*this); }

LogicalResult AvgPoolOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          Adaptor adaptor, SmallVectorImpl<Type> &types) {
  return inferPool(location, adaptor, types);
}
bool AvgPoolOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}

LogicalResult AvgPoolGradOp::verify() { return verifyPoolGrad(*this); }

} // namespace stow
