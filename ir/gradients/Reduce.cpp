// Gradients of reductions and softmax.
#include "ir/StowElementwiseOps.h"
#include "ir/StowReduceOps.h"
#include "ir/gradients/Build.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {
namespace {

/// `x`'s shape with extent 1 along `axes`.
SmallVector<int64_t> keptShape(Value x, ArrayRef<int64_t> axes) {
  SmallVector<int64_t> shape(tensorType(x).getShape());
  for (int64_t axis : axes)
    shape[axis] = 1;
  return shape;
}

/// Elements of `x` that one element of the reduction stands for.
int64_t reducedElements(Value x, ArrayRef<int64_t> axes) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= tensorType(x).getDimSize(axis);
  return count;
}

} // namespace

LogicalResult ReduceSumOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  Value kept = f.reshape(dy, keptShape(getX(), getAxes()));
  gradients.add(builder, getLoc(), getX(), f.broadcast(kept, getX().getType().getShape()));
  return success();
}

LogicalResult ReduceMeanOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  Value kept = f.reshape(dy, keptShape(getX(), getAxes()));
  Value share = f.mul(kept, 1.0 / static_cast<double>(reducedElements(getX(), getAxes())));
  gradients.add(builder, getLoc(), getX(), f.broadcast(share, getX().getType().getShape()));
  return success();
}

LogicalResult ReduceSumSquaresOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  Value kept = f.reshape(f.mul(dy, 2.0), keptShape(getX(), getAxes()));
  gradients.add(builder, getLoc(), getX(), f.mul(getX(), kept));
  return success();
}

/// The gradient is shared equally among the elements that reach the maximum (PyTorch's amax).
/// select_grad(2, x, y) is 1 there and 0 elsewhere, since no x exceeds y.
LogicalResult ReduceMaxOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY()), x = getX();
  if (!dy || !gradients.isNeeded(x))
    return success();
  Formula f(builder, getLoc());
  SmallVector<int64_t> kept = keptShape(x, getAxes());
  Value reached = f.build<SelectGradOp>(f.scalar(2.0, x), x, f.reshape(getY(), kept)).getDx();
  Value share = f.div(f.reshape(dy, kept), f.reshape(f.sum(reached, getAxes()), kept));
  gradients.add(builder, getLoc(), x, f.mul(reached, share));
  return success();
}

LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(), f.build<SoftmaxGradOp>(dy, getY(), getAxis()).getDx());
  return success();
}

LogicalResult LogSoftmaxOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<LogSoftmaxGradOp>(dy, getY(), getAxis()).getDx());
  return success();
}

} // namespace stow
