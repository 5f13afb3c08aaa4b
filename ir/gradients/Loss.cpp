// Gradients of the losses.
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult CrossEntropyRowsOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  if (!gradients.isNeeded(getLogits()))
    return success();
  Formula f(builder, getLoc());
  if (Value drow = gradients.of(getRowLoss()))
    gradients.add(
        builder, getLoc(), getLogits(),
        f.build<CrossEntropyRowsGradOp>(getLogits(), getTarget(), getLse(), drow, getIgnoreIndex())
            .getDlogits());
  if (Value dlse = gradients.of(getLse())) {
    SmallVector<int64_t> rows = {getLogits().getType().getDimSize(0), 1};
    Value softmax = f.build<ExpOp>(f.sub(getLogits(), f.reshape(getLse(), rows))).getY();
    gradients.add(builder, getLoc(), getLogits(), f.mul(softmax, f.reshape(dlse, rows)));
  }
  return success();
}

} // namespace stow
