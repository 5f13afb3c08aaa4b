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
  if (static_cast<bool>(getLargestMoment()) != static_cast<bool>(getNewLargestMoment())) // C2
    return emitOpError() << "expects a largest moment operand and result, or neither";
  return verifySameType(*this, getParameter(),
                        {getGradient(), getFirstMoment(), getSecondMoment(), getLargestMoment(),
                         getNewParameter(), getNewFirstMoment(), getNewSecondMoment(),
                         getNewLargestMoment()}); // C1
}

std::optional<unsigned> RmspropOp::getUpdatedOperand(unsigned result) {
  return result == 0 ? 0 : result + 2;
}
bool RmspropOp::isRecomputable() { return false; }
LogicalResult RmspropOp::verify() {
  size_t states = 1 + (getMomentum().isZero() ? 0 : 1) + (getCentered() ? 1 : 0);
  if (getState().size() != states || getNewState().size() != states) // C1
    return emitOpError() << "expects " << states << " states, found " << getState().size()
                         << " operands and " << getNewState().size() << " results";
  SmallVector<Value> others = {getGradient(), getNewParameter()};
  llvm::append_range(others, getState());
  llvm::append_range(others, getNewState());
  return verifySameType(*this, getParameter(), others); // C2
}

std::optional<unsigned> AdagradOp::getUpdatedOperand(unsigned result) {
  return result == 0 ? 0 : 4;
}
bool AdagradOp::isRecomputable() { return false; }
LogicalResult AdagradOp::verify() {
  return verifySameType(*this, getParameter(),
                        {getGradient(), getSum(), getNewParameter(), getNewSum()}); // C1
}

std::optional<unsigned> LionOp::getUpdatedOperand(unsigned result) { return result == 0 ? 0 : 3; }
bool LionOp::isRecomputable() { return false; }
LogicalResult LionOp::verify() {
  return verifySameType(*this, getParameter(),
                        {getGradient(), getVelocity(), getNewParameter(), getNewVelocity()}); // C1
}

std::optional<unsigned> MovingAverageOp::getUpdatedOperand(unsigned) { return 0; }
bool MovingAverageOp::isRecomputable() { return false; }
LogicalResult MovingAverageOp::verify() {
  if (!(getExponent() <= APFloat(0.0))) // C2
    return emitOpError() << "expects an exponent of at most 0";
  for (Value other : {Value(getX()), Value(getNewAverage())})
    if (other.getType() != getAverage().getType()) // C1
      return emitOpError() << "expects every tensor to have the average's type "
                           << getAverage().getType() << ", found " << other.getType();
  return success();
}

std::optional<unsigned> AdafactorOp::getUpdatedOperand(unsigned) { return 0; }
bool AdafactorOp::isRecomputable() { return false; }
LogicalResult AdafactorOp::verify() {
  for (Value squares : {getParameterSquares(), getUpdateSquares()})
    if (cast<RankedTensorType>(squares.getType()).getRank() != 0) // C2
      return emitOpError() << "expects sums of squares as scalars, found " << squares.getType();
  return verifySameType(*this, getParameter(), {getUpdate(), getNewParameter()}); // C1
}

} // namespace stow
