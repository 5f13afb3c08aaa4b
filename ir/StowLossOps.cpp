// Types and constraints of the losses.
#include "ir/Stow.h"

using namespace mlir;

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
  return sameLogicalTypes(left, right);
}
LogicalResult CrossEntropyRowsOp::verify() { return verifyRows(*this, getLogits(), {getTarget()}); }

LogicalResult CrossEntropyRowsGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                                       Adaptor adaptor,
                                                       SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(tensor(adaptor.getLogits())));
  return success();
}
bool CrossEntropyRowsGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}
SmallVector<unsigned> CrossEntropyRowsGradOp::getOverwritableOperands(unsigned) { return {0}; }
LogicalResult CrossEntropyRowsGradOp::verify() {
  return verifyRows(*this, getLogits(), {getTarget(), getLse(), getDrow()});
}

LogicalResult CountValidOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                             Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get({}, adaptor.getElementType()));
  return success();
}
bool CountValidOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}

} // namespace stow
