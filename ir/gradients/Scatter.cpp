// Gradient of maxima by index: the elements that are equal to a maximum share what flows to it.
#include "ir/StowScatterOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult ScatterMaxOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  bool needsData = gradients.isNeeded(getX()), needsUpdates = gradients.isNeeded(getUpdates());
  if (!dy || (!needsData && !needsUpdates))
    return success();
  Formula f(builder, getLoc());
  auto equal = [&](Value a, Value b) {
    Value mask = f.build<CompareOp>(a, b, "eq").getMask();
    return f.build<SelectOp>(mask, f.scalar(1.0, a), f.scalar(0.0, a)).getY();
  };
  Value arrived = equal(getUpdates(), f.build<TakeAlongOp>(getY(), getIndices(), getAxis()).getY());
  Value stayed = equal(getX(), getY());
  int64_t extent = tensorType(getX()).getDimSize(getAxis());
  Value count =
      f.add(stayed, f.build<ScatterAlongOp>(arrived, getIndices(), getAxis(), extent).getY());
  Value share = f.div(dy, count);
  if (needsData)
    gradients.add(builder, getLoc(), getX(), f.mul(share, stayed));
  if (needsUpdates)
    gradients.add(builder, getLoc(), getUpdates(),
                  f.mul(f.build<TakeAlongOp>(share, getIndices(), getAxis()).getY(), arrived));
  return success();
}

} // namespace stow
