// Gradients of reading and adding by index, strided boxes, order and running sums. They keep the
// indices, never the data.
#include "ir/StowIndexOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult TakeAlongOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(
      builder, getLoc(), getX(),
      f.build<ScatterAlongOp>(dy, getIndices(), getAxis(), tensorType(getX()).getDimSize(getAxis()))
          .getY());
  return success();
}

LogicalResult ScatterAlongOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getUpdates()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getUpdates(),
                f.build<TakeAlongOp>(dy, getIndices(), getAxis()).getY());
  return success();
}

LogicalResult StridedSliceOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(
      builder, getLoc(), getX(),
      f.build<StridedPadOp>(dy, getStarts(), getSteps(), tensorType(getX()).getShape()).getY());
  return success();
}

LogicalResult StridedPadOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(
      builder, getLoc(), getX(),
      f.build<StridedSliceOp>(dy, getStarts(), tensorType(getX()).getShape(), getSteps()).getY());
  return success();
}

LogicalResult TopKOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getValues());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(
      builder, getLoc(), getX(),
      f.build<ScatterAlongOp>(dy, getIndices(), getAxis(), tensorType(getX()).getDimSize(getAxis()))
          .getY());
  return success();
}

/// Element j reaches every sum from j on: their gradients add up from the other end.
LogicalResult CumSumOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<CumSumOp>(dy, getAxis(), getExclusive(), !getReverse()).getY());
  return success();
}

} // namespace stow
