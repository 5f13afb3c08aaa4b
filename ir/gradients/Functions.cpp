// Gradients of the functions that few models call: PyTorch's, at their kinks too.
#include "ir/StowElementwiseOps.h"
#include "ir/StowFunctionOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult Expm1Op::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(), f.mul(dy, f.add(getY(), 1.0)));
  return success();
}

LogicalResult Log1pOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(), f.div(dy, f.add(getX(), 1.0)));
  return success();
}

LogicalResult HardTanhOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<RangeGradOp>(dy, getX(), getLow(), getHigh(), llvm::APFloat(1.0),
                                     /*closed=*/false)
                    .getDx());
  return success();
}

/// By the squared distance from the origin.
LogicalResult Atan2Op::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY()), a = getA(), b = getB();
  if (!dy || !(gradients.isNeeded(a) || gradients.isNeeded(b)))
    return success();
  Formula f(builder, getLoc());
  Value share = f.div(dy, f.add(f.mul(a, a), f.mul(b, b)));
  if (gradients.isNeeded(a))
    gradients.add(builder, getLoc(), a, f.mul(share, b));
  if (gradients.isNeeded(b))
    gradients.add(builder, getLoc(), b, f.neg(f.mul(share, a)));
  return success();
}

/// PyTorch's: the quotient by p is bounded where p reaches 0 or 1; by t it is the difference of the logarithms.
LogicalResult BinaryCrossEntropyOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY()), p = getP(), t = getT();
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  if (gradients.isNeeded(p)) {
    Value variance = f.mul(p, f.sub(1.0, p));
    Value bounded = f.build<MaximumOp>(variance, f.scalar(1e-12, p)).getY();
    gradients.add(builder, getLoc(), p, f.div(f.mul(dy, f.sub(p, t)), bounded));
  }
  if (gradients.isNeeded(t)) {
    auto atLeast = [&](Value logarithm) {
      return f.build<MaximumOp>(logarithm, f.scalar(-100, p)).getY();
    };
    Value other = atLeast(f.build<Log1pOp>(f.neg(p)).getY());
    gradients.add(builder, getLoc(), t, f.mul(dy, f.sub(other, atLeast(f.build<LogOp>(p).getY()))));
  }
  return success();
}

} // namespace stow
