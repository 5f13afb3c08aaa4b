// Gradients of pooling.
#include "ir/StowPoolOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult MaxPoolTrainingOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<MaxPoolGradOp>(withoutLayout(getX().getType()), dy, getSaved(), getKernel(),
                                       getStrides(), getPads(), getDilations())
                    .getDx());
  return success();
}

LogicalResult AvgPoolOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<AvgPoolGradOp>(withoutLayout(getX().getType()), dy, getKernel(),
                                       getStrides(), getPads(), getDilations(),
                                       getCountIncludePad())
                    .getDx());
  return success();
}

} // namespace stow
