// Constraints of the optimizer updates.
#include "ir/StowOptimizerOps.h"
#include "ir/OpGroup.h"
#include "ir/StowCollectiveOps.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowOptimizerOps.cpp.inc"

void stow::addOptimizerOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowOptimizerOps.cpp.inc"
      >(dialect);
}

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

/// The parameter is operand and result 0; the further results are the new values of as many
/// operands from `firstState` on. A shard of a parameter is no state: the parameter is made of all ranks' later.
Sharings updatesOf(Operation *op, unsigned firstState) {
  const bool isShard = op->getOperand(0).getDefiningOp<ShardOp>() != nullptr;
  Sharings sharings = {{isShard ? SharingKind::Overwrite : SharingKind::Update, 0, 0}};
  for (unsigned result : llvm::seq(1u, op->getNumResults()))
    sharings.push_back({SharingKind::Update, result, firstState + result - 1});
  return sharings;
}

} // namespace

Sharings SgdOp::getSharings() { return updatesOf(*this, 3); }
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

Sharings AdamOp::getSharings() { return updatesOf(*this, 4); }
bool AdamOp::isRecomputable() { return false; }
LogicalResult AdamOp::verify() {
  if (static_cast<bool>(getLargestMoment()) != static_cast<bool>(getNewLargestMoment())) // C2
    return emitOpError() << "expects a largest moment operand and result, or neither";
  return verifySameType(*this, getParameter(),
                        {getGradient(), getFirstMoment(), getSecondMoment(), getLargestMoment(),
                         getNewParameter(), getNewFirstMoment(), getNewSecondMoment(),
                         getNewLargestMoment()}); // C1
}

Sharings RmspropOp::getSharings() { return updatesOf(*this, 3); }
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

Sharings AdagradOp::getSharings() { return updatesOf(*this, 4); }
bool AdagradOp::isRecomputable() { return false; }
LogicalResult AdagradOp::verify() {
  return verifySameType(*this, getParameter(),
                        {getGradient(), getSum(), getNewParameter(), getNewSum()}); // C1
}

Sharings LionOp::getSharings() { return updatesOf(*this, 3); }
bool LionOp::isRecomputable() { return false; }
LogicalResult LionOp::verify() {
  return verifySameType(*this, getParameter(),
                        {getGradient(), getVelocity(), getNewParameter(), getNewVelocity()}); // C1
}

Sharings MovingAverageOp::getSharings() { return {{SharingKind::Update, 0, 0}}; }
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

Sharings AdafactorOp::getSharings() { return {{SharingKind::Update, 0, 0}}; }
bool AdafactorOp::isRecomputable() { return false; }
LogicalResult AdafactorOp::verify() {
  for (Value squares : {getParameterSquares(), getUpdateSquares()})
    if (cast<RankedTensorType>(squares.getType()).getRank() != 0) // C2
      return emitOpError() << "expects sums of squares as scalars, found " << squares.getType();
  return verifySameType(*this, getParameter(), {getUpdate(), getNewParameter()}); // C1
}

} // namespace stow
