// Gradients of the losses.
#include "ir/StowElementwiseOps.h"
#include "ir/StowLossOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult CrossEntropyRowsOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  if (!gradients.isNeeded(getLogits()))
    return success();
  Formula f(builder, getLoc());
  if (Value drow = gradients.of(getRowLoss()))
    gradients.add(builder, getLoc(), getLogits(),
                  f.build<CrossEntropyRowsGradOp>(getLogits(), getTarget(), getLse(), drow,
                                                  getWeight(), getIgnoreIndex(),
                                                  getLabelSmoothing())
                      .getDlogits());
  if (Value dlse = gradients.of(getLse())) {
    SmallVector<int64_t> rows = {getLogits().getType().getDimSize(0), 1};
    Value softmax = f.build<ExpOp>(f.sub(getLogits(), f.reshape(getLse(), rows))).getY();
    gradients.add(builder, getLoc(), getLogits(), f.mul(softmax, f.reshape(dlse, rows)));
  }
  return success();
}

LogicalResult NllRowsOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value drow = gradients.of(getRowLoss());
  if (!drow || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(
      builder, getLoc(), getX(),
      f.build<NllRowsGradOp>(getTarget(), drow, getX().getType().getDimSize(1), getIgnoreIndex())
          .getDx());
  return success();
}

} // namespace stow
