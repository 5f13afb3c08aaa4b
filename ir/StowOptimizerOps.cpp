// Constraints of the optimizer updates.
#include "ir/Stow.h"

using namespace mlir;

namespace stow {
namespace {

/// Every tensor in `others` has the parameter's type, layout included.
LogicalResult verifySameType(Operation *op, Value parameter, ValueRange others) {
  for (Value other : others)
    if (other && other.getType() != parameter.getType())
      return op->emitOpError() << "expects every tensor to have the parameter's type "
                               << parameter.getType() << ", found " << other.getType();
  return success();
}

} // namespace

std::optional<unsigned> SgdOp::getUpdatedOperand(unsigned result) { return result == 0 ? 0 : 3; }
bool SgdOp::isRecomputable() { return false; }
LogicalResult SgdOp::verify() {
  if (static_cast<bool>(getVelocity()) != static_cast<bool>(getNewVelocity())) // C1
    return emitOpError() << "expects a velocity operand and result, or neither";
  if (getNesterov() && !getVelocity()) // C3
    return emitOpError() << "expects a velocity for nesterov";
  SmallVector<Value> others = {getGradient(), getNewParameter()};
  if (getVelocity())
    others.append({getVelocity(), getNewVelocity()});
  return verifySameType(*this, getParameter(), others); // C2
}

std::optional<unsigned> AdamOp::getUpdatedOperand(unsigned result) {
  return result == 0 ? 0 : result + 3;
}
bool AdamOp::isRecomputable() { return false; }
LogicalResult AdamOp::verify() {
  return verifySameType(*this, getParameter(),
                        {getGradient(), getFirstMoment(), getSecondMoment(), getNewParameter(),
                         getNewFirstMoment(), getNewSecondMoment()}); // C1
}

} // namespace stow
