// Types and constraints of the losses.
#include "ir/StowLossOps.h"
#include "ir/OpGroup.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowLossOps.cpp.inc"

void stow::addLossOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowLossOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult verifyRows(Operation *op, Value logits, ValueRange rows) {
  if (tensor(logits).getRank() != 2)
    return op->emitOpError() << "expects logits [R,C], found " << logits.getType();
  for (Value row : rows)
    if (tensor(row).getShape() != tensor(logits).getShape().take_front(1)) // C1
      return op->emitOpError() << "expects one element per row of " << logits.getType()
                               << ", found " << row.getType();
  return success();
}

template <typename Op> LogicalResult verifyClasses(Op op) {
  double smoothing = op.getLabelSmoothing().convertToDouble();
  if (!(smoothing >= 0 && smoothing <= 1)) // C3
    return op.emitOpError() << "expects a label_smoothing in [0, 1], found " << smoothing;
  if (Value weight = op.getWeight())
    if (tensor(weight).getShape() != tensor(op.getLogits()).getShape().drop_front(1) ||
        !commonType(tensor(weight).getElementType(),
                    tensor(op.getLogits()).getElementType())) // C2
      return op.emitOpError() << "expects one weight per class of " << op.getLogits().getType()
                              << ", found " << weight.getType();
  return success();
}

} // namespace

LogicalResult CrossEntropyRowsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                   Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto logits = tensor(adaptor.getLogits());
  if (logits.getRank() != 2)
    return emitOptionalError(location, "expects logits [R,C], found ", logits);
  types.append(2, RankedTensorType::get({logits.getDimSize(0)}, logits.getElementType()));
  return success();
}
bool CrossEntropyRowsOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult CrossEntropyRowsOp::verify() {
  return success(succeeded(verifyRows(*this, getLogits(), {getTarget()})) &&
                 succeeded(verifyClasses(*this)));
}

LogicalResult CrossEntropyRowsGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                       Adaptor adaptor,
                                                       SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(tensor(adaptor.getLogits())));
  return success();
}
bool CrossEntropyRowsGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings CrossEntropyRowsGradOp::getSharings() { return {{SharingKind::Overwrite, 0, 0}}; }
LogicalResult CrossEntropyRowsGradOp::verify() {
  return success(succeeded(verifyRows(*this, getLogits(), {getTarget(), getLse(), getDrow()})) &&
                 succeeded(verifyClasses(*this)));
}

LogicalResult NllRowsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  if (x.getRank() != 2)
    return emitOptionalError(location, "expects logarithms [R,C], found ", x);
  types.push_back(RankedTensorType::get({x.getDimSize(0)}, x.getElementType()));
  return success();
}
bool NllRowsOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
LogicalResult NllRowsOp::verify() { return verifyRows(*this, getX(), {getTarget()}); }

LogicalResult NllRowsGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                              Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto target = tensor(adaptor.getTarget()), drow = tensor(adaptor.getDrow());
  if (target.getRank() != 1 || target.getShape() != drow.getShape()) // C1
    return emitOptionalError(location, "expects one target and one gradient a row, found ", target,
                             " and ", drow);
  if (static_cast<int64_t>(adaptor.getClasses()) <= 0) // C2
    return emitOptionalError(location, "expects at least one class");
  types.push_back(RankedTensorType::get(
      {target.getDimSize(0), static_cast<int64_t>(adaptor.getClasses())}, drow.getElementType()));
  return success();
}
bool NllRowsGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}

LogicalResult ClassWeightsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                               Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto target = tensor(adaptor.getTarget()), weight = tensor(adaptor.getWeight());
  if (target.getRank() != 1 || weight.getRank() != 1) // C1
    return emitOptionalError(location, "expects targets [R] and weights [C], found ", target,
                             " and ", weight);
  types.push_back(RankedTensorType::get(target.getShape(), weight.getElementType()));
  return success();
}
bool ClassWeightsOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}

LogicalResult CountValidOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                             Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get({}, adaptor.getElementType()));
  return success();
}
bool CountValidOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}

} // namespace stow
