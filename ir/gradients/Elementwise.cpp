// Gradients of the elementwise ops. Each prefers what costs no extra memory: the output where the
// derivative is a function of it (exp, sigmoid, tanh, ...), else the input.
#include "ir/StowElementwiseOps.h"
#include "ir/StowShapeOps.h"
#include "ir/gradients/Build.h"

#include <algorithm>
#include <numbers>

using namespace mlir;

namespace stow {

// Defines buildGradient of a unary op: `formula` is an expression of f, x, y and dy.
#define STOW_UNARY_GRADIENT(OpName, formula)                                                       \
  LogicalResult OpName::buildGradient(OpBuilder &builder, Gradients &gradients) {                  \
    Value dy = gradients.of(getY());                                                               \
    if (!dy || !gradients.isNeeded(getX()))                                                        \
      return success();                                                                            \
    Formula f(builder, getLoc());                                                                  \
    Value x = getX(), y = getY();                                                                  \
    (void)x, (void)y;                                                                              \
    gradients.add(builder, getLoc(), x, formula);                                                  \
    return success();                                                                              \
  }

STOW_UNARY_GRADIENT(NegOp, f.neg(dy))
STOW_UNARY_GRADIENT(AbsOp, f.mul(dy, f.build<SignOp>(x).getY()))
STOW_UNARY_GRADIENT(ExpOp, f.mul(dy, y))
STOW_UNARY_GRADIENT(LogOp, f.div(dy, x))
STOW_UNARY_GRADIENT(SqrtOp, f.div(f.mul(dy, 0.5), y))
STOW_UNARY_GRADIENT(ReciprocalOp, f.neg(f.mul(dy, f.mul(y, y))))
STOW_UNARY_GRADIENT(SigmoidOp, f.mul(dy, f.mul(y, f.sub(1.0, y))))
STOW_UNARY_GRADIENT(TanhOp, f.mul(dy, f.sub(1.0, f.mul(y, y))))
STOW_UNARY_GRADIENT(ErfOp, f.mul(f.mul(dy, f.build<ExpOp>(f.neg(f.mul(x, x))).getY()),
                                 2.0 * std::numbers::inv_sqrtpi))
STOW_UNARY_GRADIENT(SinOp, f.mul(dy, f.build<CosOp>(x).getY()))
STOW_UNARY_GRADIENT(CosOp, f.neg(f.mul(dy, f.build<SinOp>(x).getY())))
STOW_UNARY_GRADIENT(AtanOp, f.div(dy, f.add(f.mul(x, x), 1.0)))
STOW_UNARY_GRADIENT(SoftplusOp, f.mul(dy, f.build<SigmoidOp>(x).getY()))
STOW_UNARY_GRADIENT(HardSwishOp, f.build<HardSwishGradOp>(dy, x).getDx())
STOW_UNARY_GRADIENT(LeakyReluOp, f.build<LeakyReluGradOp>(dy, x, getAlpha()).getDx())
STOW_UNARY_GRADIENT(EluOp, f.build<EluGradOp>(dy, y, getAlpha()).getDx())
STOW_UNARY_GRADIENT(
    ClipOp,
    f.build<RangeGradOp>(dy, x, getLow(), getHigh(), llvm::APFloat(1.0), /*closed=*/true).getDx())
STOW_UNARY_GRADIENT(ThresholdedReluOp,
                    f.build<RangeGradOp>(dy, x, getAlpha(),
                                         llvm::APFloat::getInf(llvm::APFloat::IEEEdouble()),
                                         llvm::APFloat(1.0), /*closed=*/false)
                        .getDx())
#undef STOW_UNARY_GRADIENT

/// The derivative is 0 almost everywhere: nothing flows back.
LogicalResult SignOp::buildGradient(OpBuilder &, Gradients &) { return success(); }
LogicalResult RoundOp::buildGradient(OpBuilder &, Gradients &) { return success(); }

LogicalResult HardSigmoidOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  double alpha = getAlpha().convertToDouble(), beta = getBeta().convertToDouble();
  if (!dy || !gradients.isNeeded(getX()) || alpha == 0)
    return success();
  double low = -beta / alpha, high = (1 - beta) / alpha;
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<RangeGradOp>(dy, getX(), llvm::APFloat(std::min(low, high)),
                                     llvm::APFloat(std::max(low, high)), getAlpha(),
                                     /*closed=*/false)
                    .getDx());
  return success();
}

//===-- Two operands -------------------------------------------------------------------------===//

// Defines buildGradient of a binary op: `da` and `db` are expressions of f, a, b, y and dy.
#define STOW_BINARY_GRADIENT(OpName, da, db)                                                       \
  LogicalResult OpName::buildGradient(OpBuilder &builder, Gradients &gradients) {                  \
    Value dy = gradients.of(getY());                                                               \
    if (!dy)                                                                                       \
      return success();                                                                            \
    Formula f(builder, getLoc());                                                                  \
    Value a = getA(), b = getB(), y = getY();                                                      \
    (void)y;                                                                                       \
    if (gradients.isNeeded(a))                                                                     \
      gradients.add(builder, getLoc(), a, da);                                                     \
    if (gradients.isNeeded(b))                                                                     \
      gradients.add(builder, getLoc(), b, db);                                                     \
    return success();                                                                              \
  }

STOW_BINARY_GRADIENT(AddOp, dy, dy)
STOW_BINARY_GRADIENT(SubOp, dy, f.neg(dy))
STOW_BINARY_GRADIENT(DivOp, f.div(dy, b), f.neg(f.div(f.mul(dy, y), b)))
STOW_BINARY_GRADIENT(MaximumOp, f.build<SelectGradOp>(dy, a, b).getDx(),
                     f.build<SelectGradOp>(dy, b, a).getDx())
STOW_BINARY_GRADIENT(MinimumOp, f.build<SelectGradOp>(dy, b, a).getDx(),
                     f.build<SelectGradOp>(dy, a, b).getDx())
#undef STOW_BINARY_GRADIENT

/// A square gets one product, 2 * dy * a, instead of a sum of two.
LogicalResult MulOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY()), a = getA(), b = getB();
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  if (gradients.isNeeded(a))
    gradients.add(builder, getLoc(), a, a == b ? f.mul(f.mul(dy, a), 2.0) : f.mul(dy, b));
  if (gradients.isNeeded(b) && a != b)
    gradients.add(builder, getLoc(), b, f.mul(dy, a));
  return success();
}

/// The value of a splat float constant, or none.
static std::optional<double> splatOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat() || !isa<FloatType>(elements.getElementType()))
    return std::nullopt;
  return elements.getSplatValue<APFloat>().convertToDouble();
}

/// da = b * a^(b-1) * dy, 0 where b is 0; db = y * ln(a) * dy, 0 where a is 0 and b is not negative: the limits, as in
/// PyTorch, where the products are NaN. A constant exponent 0 passes nothing back, and 1 and 2 avoid the power.
LogicalResult PowOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY()), a = getA(), b = getB();
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  std::optional<double> exponent = splatOf(b);
  if (gradients.isNeeded(a) && exponent != 0.0) {
    Value da;
    if (exponent == 1.0)
      da = dy;
    else if (exponent == 2.0)
      da = f.mul(f.mul(dy, a), 2.0);
    else if (exponent)
      da = f.mul(f.mul(dy, f.build<PowOp>(a, f.scalar(*exponent - 1, a)).getY()), *exponent);
    else
      da = f.zeroWhere(f.compare(b, 0.0, "eq"),
                       f.mul(f.mul(dy, b), f.build<PowOp>(a, f.add(b, -1.0)).getY()));
    gradients.add(builder, getLoc(), a, da);
  }
  if (gradients.isNeeded(b)) {
    Value db = f.mul(f.mul(dy, getY()), f.build<LogOp>(a).getY());
    if (std::optional<double> base = splatOf(a); !base || *base == 0) {
      Value isZero = f.compare(a, 0.0, "eq");
      db = f.zeroWhere(f.build<SelectOp>(isZero, f.compare(b, 0.0, "ge"), isZero).getY(), db);
    }
    gradients.add(builder, getLoc(), b, db);
  }
  return success();
}

//===-- Ops with a choice, casts, dropout
//------------------------------------------------------===//

SmallVector<StringRef> ReluOp::getSavedAlternatives() { return {"output", "mask", "input"}; }

LogicalResult ReluOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  StringRef choice = gradients.chosenAlternative(*this);
  Value saved = choice == "input" ? getX() : getY();
  if (choice == "mask") {
    // The mask is computed in the forward, so that the float tensor may die there.
    OpBuilder forward(getOperation()->getContext());
    forward.setInsertionPointAfter(*this);
    saved = PositiveMaskOp::create(forward, getLoc(), getY()).getMask();
  }
  gradients.add(builder, getLoc(), getX(), ReluGradOp::create(builder, getLoc(), dy, saved));
  return success();
}

LogicalResult SelectOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  if (gradients.isNeeded(getA()))
    gradients.add(builder, getLoc(), getA(),
                  f.build<SelectOp>(getCondition(), dy, f.scalar(0, dy)).getY());
  if (gradients.isNeeded(getB()))
    gradients.add(builder, getLoc(), getB(),
                  f.build<SelectOp>(getCondition(), f.scalar(0, dy), dy).getY());
  return success();
}

LogicalResult CastOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<CastOp>(withoutLayout(getX().getType()), dy).getY());
  return success();
}

LogicalResult DropoutTrainingOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<DropoutTrainingOp>(dy, getSeed(), getRatio(), getStream()).getY());
  return success();
}

} // namespace stow
