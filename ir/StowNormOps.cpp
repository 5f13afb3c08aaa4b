// Types, constraints and costs of the normalization ops.
#include "ir/StowNormOps.h"
#include "ir/OpGroup.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowNormOps.cpp.inc"

void stow::addNormOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowNormOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

RankedTensorType channelVector(Value x) {
  return RankedTensorType::get({tensor(x).getDimSize(1)}, tensor(x).getElementType());
}

/// x's own type, then two vectors with one element per channel.
LogicalResult inferWithChannels(std::optional<Location> location, Value x,
                                SmallVectorImpl<Type> &types) {
  if (tensor(x).getRank() < 2)
    return emitOptionalError(location, "expects x of rank 2 to 5");
  types.push_back(withoutLayout(tensor(x)));
  types.append(2, channelVector(x));
  return success();
}

/// x of rank 2 to 5, every vector with one element per channel.
LogicalResult verifyChannels(Operation *op, Value x, ValueRange vectors) {
  if (tensor(x).getRank() < 2 || tensor(x).getRank() > 5)
    return op->emitOpError() << "expects x of rank 2 to 5, found " << x.getType();
  for (Value vector : vectors)
    if (tensor(vector).getShape() != channelVector(x).getShape())
      return op->emitOpError() << "expects vectors of " << tensor(x).getDimSize(1)
                               << " elements, one per channel, found " << vector.getType();
  return success();
}

} // namespace

LogicalResult BatchNormOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(tensor(adaptor.getX())));
  return success();
}
bool BatchNormOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult BatchNormOp::verify() {
  return verifyChannels(*this, getX(), {getScale(), getBias(), getMean(), getVariance()});
}
bool BatchNormOp::takesLow(unsigned position) { return position == 0 || position == 5; }
Sharings BatchNormOp::getSharings() { return {{SharingKind::Overwrite, 0, 0}}; }

LogicalResult BatchNormTrainingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                    Adaptor adaptor, SmallVectorImpl<Type> &types) {
  return inferWithChannels(location, adaptor.getX(), types);
}
bool BatchNormTrainingOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult BatchNormTrainingOp::verify() {
  return verifyChannels(*this, getX(), {getScale(), getBias()});
}
bool BatchNormTrainingOp::takesLow(unsigned position) { return position == 0 || position == 3; }
double BatchNormTrainingOp::getFlops() { return 7.0 * getX().getType().getNumElements(); }

LogicalResult BatchNormGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                Adaptor adaptor, SmallVectorImpl<Type> &types) {
  return inferWithChannels(location, adaptor.getX(), types);
}
bool BatchNormGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
bool BatchNormGradOp::takesLow(unsigned position) {
  return position == 0 || position == 4 || position == 5;
}
Sharings BatchNormGradOp::getSharings() {
  return {{SharingKind::Overwrite, 0, 4}, {SharingKind::Overwrite, 0, 0}};
}
double BatchNormGradOp::getFlops() { return 11.0 * getX().getType().getNumElements(); }

LogicalResult ChannelMomentsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                 Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (tensor(adaptor.getX()).getRank() < 2) // C1
    return emitOptionalError(location, "expects x of rank 2 or more, found ",
                             adaptor.getX().getType());
  types.append(2, channelVector(adaptor.getX()));
  return success();
}
bool ChannelMomentsOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
double ChannelMomentsOp::getFlops() { return 4.0 * getX().getType().getNumElements(); }

LogicalResult BatchNormScaleGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                     Adaptor adaptor,
                                                     SmallVectorImpl<Type> &types) {
  types.append(2, channelVector(adaptor.getX()));
  return success();
}
bool BatchNormScaleGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult BatchNormScaleGradOp::verify() {
  if (!compatibleTypes(getDy().getType(), getX().getType())) // C1
    return emitOpError() << "expects dy of x's shape, found " << getDy().getType() << " and "
                         << getX().getType();
  return verifyChannels(*this, getX(), {getMean(), getVariance()}); // C2
}
double BatchNormScaleGradOp::getFlops() { return 4.0 * getX().getType().getNumElements(); }

LogicalResult ChannelWindowSumOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                   Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(tensor(adaptor.getX())));
  return success();
}
bool ChannelWindowSumOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult ChannelWindowSumOp::verify() {
  if (getX().getType().getRank() < 2)
    return emitOpError() << "expects x of rank 2 or more";
  if (static_cast<int64_t>(getBefore()) < 0 || static_cast<int64_t>(getAfter()) < 0)
    return emitOpError() << "expects a window that contains its own channel";
  return success();
}

//===-- Layer normalization -------------------------------------------------------------------===//

namespace {

/// One element per row of `x`.
RankedTensorType rowNumbers(Value x) {
  return RankedTensorType::get(tensor(x).getShape().drop_back(), tensor(x).getElementType());
}

RankedTensorType rowVector(Value x) {
  return RankedTensorType::get({tensor(x).getShape().back()}, tensor(x).getElementType());
}

} // namespace

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (tensor(adaptor.getX()).getRank() < 2) // C1
    return emitOptionalError(location, "expects x of rank 2 or more, found ",
                             adaptor.getX().getType());
  types.push_back(withoutLayout(tensor(adaptor.getX())));
  types.append(2, rowNumbers(adaptor.getX()));
  return success();
}
bool LayerNormOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult LayerNormOp::verify() {
  for (Value vector : getOperands().drop_front())
    if (!compatibleTypes(vector.getType(), rowVector(getX()))) // C2
      return emitOpError() << "expects scale and bias of type " << rowVector(getX()) << ", found "
                           << vector.getType();
  return success();
}
Sharings LayerNormOp::getSharings() { return {{SharingKind::Overwrite, 0, 0}}; }
double LayerNormOp::getFlops() { return 7.0 * getX().getType().getNumElements(); }

LogicalResult LayerNormGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(tensor(adaptor.getX())));
  return success();
}
bool LayerNormGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings LayerNormGradOp::getSharings() {
  return {{SharingKind::Overwrite, 0, 0}, {SharingKind::Overwrite, 0, 1}};
}
double LayerNormGradOp::getFlops() { return 11.0 * getX().getType().getNumElements(); }

LogicalResult LayerNormScaleGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                     Adaptor adaptor,
                                                     SmallVectorImpl<Type> &types) {
  types.append(2, rowVector(adaptor.getX()));
  return success();
}
bool LayerNormScaleGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
double LayerNormScaleGradOp::getFlops() { return 5.0 * getX().getType().getNumElements(); }

//===-- Planes --------------------------------------------------------------------------------===//

namespace {

/// One element per plane of `x`.
RankedTensorType planeNumbers(Value x) {
  return RankedTensorType::get(tensor(x).getShape().take_front(2), tensor(x).getElementType());
}

LogicalResult requirePlanes(std::optional<Location> location, Value x) {
  if (tensor(x).getRank() < 3)
    return emitOptionalError(location, "expects x of rank 3 or more, found ", x.getType());
  return success();
}

} // namespace

LogicalResult PlaneMomentsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                               Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (failed(requirePlanes(location, adaptor.getX()))) // C1
    return failure();
  types.append(2, planeNumbers(adaptor.getX()));
  return success();
}
bool PlaneMomentsOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
double PlaneMomentsOp::getFlops() { return 4.0 * getX().getType().getNumElements(); }

LogicalResult PlaneNormalizeOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                 Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(tensor(adaptor.getX())));
  return success();
}
bool PlaneNormalizeOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult PlaneNormalizeOp::verify() {
  auto x = getX().getType();
  if (failed(requirePlanes(getLoc(), getX())))
    return failure();
  SmallVector<int64_t> shape(x.getRank(), 1);
  shape[0] = x.getDimSize(0);
  shape[1] = x.getDimSize(1);
  auto expected = RankedTensorType::get(shape, x.getElementType());
  for (Value numbers : getOperands().drop_front())
    if (!compatibleTypes(numbers.getType(), expected)) // C1
      return emitOpError() << "expects mean, slope and shift of type " << expected << ", found "
                           << numbers.getType();
  return success();
}
Sharings PlaneNormalizeOp::getSharings() {
  if (getX().getType() != getY().getType())
    return {};
  return {{SharingKind::Overwrite, 0, 0}};
}

LogicalResult PlaneProductsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (failed(requirePlanes(location, adaptor.getX()))) // C1
    return failure();
  types.append(2, planeNumbers(adaptor.getX()));
  return success();
}
bool PlaneProductsOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult PlaneProductsOp::verify() {
  if (!compatibleTypes(getDy().getType(), getX().getType())) // C1
    return emitOpError() << "expects dy of x's shape, found " << getDy().getType() << " and "
                         << getX().getType();
  if (!compatibleTypes(getMean().getType(), planeNumbers(getX()))) // C2
    return emitOpError() << "expects a mean of type " << planeNumbers(getX()) << ", found "
                         << getMean().getType();
  return success();
}
double PlaneProductsOp::getFlops() { return 4.0 * getX().getType().getNumElements(); }

//===-- Root mean squares ---------------------------------------------------------------------===//

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (tensor(adaptor.getX()).getRank() < 2) // C1
    return emitOptionalError(location, "expects x of rank 2 or more, found ",
                             adaptor.getX().getType());
  types.push_back(withoutLayout(tensor(adaptor.getX())));
  types.push_back(rowNumbers(adaptor.getX()));
  return success();
}
bool RmsNormOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult RmsNormOp::verify() {
  if (!compatibleTypes(getScale().getType(), rowVector(getX()))) // C2
    return emitOpError() << "expects a scale of type " << rowVector(getX()) << ", found "
                         << getScale().getType();
  return success();
}
Sharings RmsNormOp::getSharings() { return {{SharingKind::Overwrite, 0, 0}}; }
double RmsNormOp::getFlops() { return 5.0 * getX().getType().getNumElements(); }

LogicalResult RmsNormGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                              Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(tensor(adaptor.getX())));
  return success();
}
bool RmsNormGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings RmsNormGradOp::getSharings() {
  return {{SharingKind::Overwrite, 0, 0}, {SharingKind::Overwrite, 0, 1}};
}
double RmsNormGradOp::getFlops() { return 8.0 * getX().getType().getNumElements(); }

LogicalResult RmsNormScaleGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                   Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(rowVector(adaptor.getX()));
  return success();
}
bool RmsNormScaleGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
double RmsNormScaleGradOp::getFlops() { return 3.0 * getX().getType().getNumElements(); }

} // namespace stow
