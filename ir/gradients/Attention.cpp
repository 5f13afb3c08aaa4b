// Gradient of attention: one op, which computes the weights again.
#include "ir/StowAttentionOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult AttentionOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  if (gradients.of(getLse()))
    return emitOpError("has no gradient by lse; only its own gradient may read that");
  Value dy = gradients.of(getY());
  if (!dy)
    return success();
  if (getMask() && gradients.isNeeded(getMask()))
    return emitOpError("has a mask that is trained or whose gradient is asked for, which would be "
                       "the gradient of the scores; add it to the scores of stow.matmul and "
                       "stow.softmax instead");
  Formula f(builder, getLoc());
  auto gradient = f.build<AttentionGradientOp>(
      getQ(), getK(), getV(), getY(), getLse(), dy, getMask(), getQueryDocuments(),
      getKeyDocuments(), getSeed(), getScaleAttr(), getDiagonalAttr(), getWindowAttr(),
      getZeroRowsAttr(), getRatioAttr(), getStreamAttr());
  auto add = [&](Value value, Value result) {
    if (gradients.isNeeded(value))
      gradients.add(builder, getLoc(), value, result);
  };
  add(getV(), gradient.getDv());
  add(getK(), gradient.getDk());
  add(getQ(), gradient.getDq());
  return success();
}

} // namespace stow
