// Gradients of what ranks do together, of the loss that the losses of all ranks sum up to.
#include "ir/StowCollectiveOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

/// Every rank's y has this rank's x in it, and so has every rank's loss.
LogicalResult AllReduceOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getX(),
                f.build<AllReduceOp>(dy.getType(), dy, getRanks()).getY());
  return success();
}

} // namespace stow
