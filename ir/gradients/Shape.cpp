// Gradients of views and data movement.
#include "ir/StowShapeOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(), f.reshape(dy, getX().getType().getShape()));
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    inverse[from] = static_cast<int64_t>(to);
  gradients.add(builder, getLoc(), getX(), f.build<TransposeOp>(dy, inverse).getY());
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  SmallVector<int64_t> starts(getY().getType().getRank(), 0);
  for (Value input : getInputs()) {
    ArrayRef<int64_t> sizes = tensorType(input).getShape();
    if (gradients.isNeeded(input))
      gradients.add(builder, getLoc(), input, f.build<SliceOp>(dy, starts, sizes).getY());
    starts[getAxis()] += sizes[getAxis()];
  }
  return success();
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  SmallVector<int64_t> after;
  for (auto [extent, start, size] :
       llvm::zip(tensorType(getX()).getShape(), getStarts(), getSizes()))
    after.push_back(extent - start - size);
  gradients.add(builder, getLoc(), getX(),
                f.build<PadOp>(dy, getStarts(), after, llvm::APFloat(0.0)).getY());
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<SliceOp>(dy, getBefore(), getX().getType().getShape()).getY());
  return success();
}

/// Gradients::add sums over the repeated dimensions.
LogicalResult BroadcastToOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (dy && gradients.isNeeded(getX()))
    gradients.add(builder, getLoc(), getX(), dy);
  return success();
}

} // namespace stow
