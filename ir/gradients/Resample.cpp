// Gradients of resampling and rearranging: the transposed matrices, the inverse permutation. Those of
// sampling at computed places keep the grid, and the images where the grid needs a gradient.
#include "ir/Resample.h"
#include "ir/StowResampleOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult ResampleOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  SmallVector<AxisRows> transposed;
  for (const AxisRows &matrix : axisRowsOf(*this))
    transposed.push_back(
        {matrix.axis, matrix.rows.transposed(getX().getType().getDimSize(matrix.axis))});
  Properties properties;
  setAxisRows(properties, builder, transposed);
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<ResampleOp>(dy, properties.axes, properties.extents, properties.starts,
                                    properties.sources, properties.weights)
                    .getY());
  return success();
}

LogicalResult RearrangeOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  SmallVector<int64_t> factors, inverse(getPermutation().size());
  for (auto [to, from] : llvm::enumerate(getPermutation())) {
    factors.push_back(getFactors()[from]);
    inverse[from] = static_cast<int64_t>(to);
  }
  gradients.add(builder, getLoc(), getX(),
                f.build<RearrangeOp>(withoutLayout(getX().getType()), dy, factors, inverse).getY());
  return success();
}

LogicalResult GridSampleOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  if (gradients.isNeeded(getX()))
    gradients.add(builder, getLoc(), getX(),
                  f.build<GridSampleGradInputOp>(dy, getGrid(),
                                                 tensorType(getX()).getShape().drop_front(2),
                                                 getMode(), getPadding(), getAlignCorners())
                      .getDx());
  if (gradients.isNeeded(getGrid()) && getMode() == "linear")
    gradients.add(
        builder, getLoc(), getGrid(),
        f.build<GridSampleGradGridOp>(dy, getX(), getGrid(), getPadding(), getAlignCorners())
            .getDgrid());
  return success();
}

} // namespace stow
