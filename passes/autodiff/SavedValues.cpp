#include "passes/autodiff/SavedValues.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace stow {
namespace {

/// True when the gradient formula of the operand's owner reads the operand's value. Mirrors
/// ir/gradients; an op missing here costs memory at most, never correctness.
bool isReadByGradient(OpOperand &use, Gradients &gradients) {
  auto isOther = [&](Value a, Value b) {
    return gradients.isNeeded(use.get() == a ? b : a) || (a == b && gradients.isNeeded(a));
  };
  return llvm::TypeSwitch<Operation *, bool>(use.getOwner())
      .Case<Conv2dOp>([&](auto op) {
        return use.get() == op.getX()
                   ? gradients.isNeeded(op.getWeight())
                   : use.get() == op.getWeight() && gradients.isNeeded(op.getX());
      })
      .Case<Conv2dGradInputOp>([&](auto op) { return isOther(op.getDy(), op.getWeight()); })
      .Case<MatmulOp>(
          [&](auto op) { return use.get() != op.getBias() && isOther(op.getA(), op.getB()); })
      .Case<MulOp>([&](auto op) { return isOther(op.getA(), op.getB()); })
      .Case<DivOp>([&](auto op) { return use.get() == op.getB(); })
      .Case<MaximumOp, MinimumOp, PowOp>([&](auto) { return true; })
      .Case<BatchNormTrainingOp>([&](auto op) { return use.get() != op.getBias(); })
      .Case<BatchNormOp>([&](auto op) {
        if (use.get() == op.getX())
          return gradients.isNeeded(op.getScale()) || gradients.isNeeded(op.getVariance());
        return use.get() != op.getBias();
      })
      .Case<LayerNormOp>(
          [&](auto op) { return use.get() == op.getX() || use.get() == op.getScale(); })
      .Case<PlaneNormalizeOp>([&](auto op) { return use.get() != op.getShift(); })
      .Case<CrossEntropyRowsOp>([&](auto op) { return use.get() == op.getLogits(); })
      .Case<AbsOp, LogOp, ErfOp, SinOp, CosOp, AtanOp, SoftplusOp, HardSwishOp, LeakyReluOp,
            ThresholdedReluOp, HardSigmoidOp, ClipOp, ReduceMaxOp, ReduceSumSquaresOp,
            PlaneMomentsOp, RmsNormOp>([&](auto) { return true; })
      .Default(false);
}

/// True when the gradient formula of the op that defines `value` reads it.
bool isReadByOwnGradient(Value value) {
  return isa_and_nonnull<ExpOp, SqrtOp, ReciprocalOp, SigmoidOp, TanhOp, DivOp, EluOp, SoftmaxOp,
                         LogSoftmaxOp, ReduceMaxOp>(value.getDefiningOp());
}

} // namespace

bool isReadByReadersGradient(Value value, Gradients &gradients) {
  for (OpOperand &use : value.getUses()) {
    Operation *reader = use.getOwner();
    if (isReadByGradient(use, gradients))
      return true;
    // What a concat reads is produced inside its result: one of them keeps the other.
    if (auto concat = dyn_cast<ConcatOp>(reader))
      if (isReadByReadersGradient(concat.getY(), gradients))
        return true;
    auto alias = dyn_cast<AliasOpInterface>(reader);
    if (alias && alias.getViewedOperand() == use.getOperandNumber() &&
        isReadByReadersGradient(reader->getResult(0), gradients))
      return true;
  }
  return false;
}

StringRef cheapestAlternative(Operation *op, Gradients &gradients) {
  Value input = op->getOperand(0), output = op->getResult(0);
  if (isReadByReadersGradient(output, gradients))
    return "output";
  if (isa<BlockArgument>(input) || isReadByOwnGradient(input) ||
      isReadByReadersGradient(input, gradients))
    return "input";
  auto type = cast<RankedTensorType>(output.getType());
  return storedBytesOf(type) > type.getNumElements() ? "mask" : "output";
}

} // namespace stow
