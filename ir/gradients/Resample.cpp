// Gradients of resampling and rearranging: the transposed matrices, the inverse permutation.
#include "ir/Resample.h"
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

} // namespace stow
