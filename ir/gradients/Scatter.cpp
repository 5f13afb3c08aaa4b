// Gradients of maxima and products by index. The elements that are equal to a maximum share what flows to it; to a factor flows the
// product of the others.
#include "ir/StowElementwiseOps.h"
#include "ir/StowIndexOps.h"
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

/// What flows to x is dy times all that arrived. An update that is not 0 divides the product, which is 0 where another is; one that
/// is 0 gets the product of those that are not, unless a second update at its place is 0.
LogicalResult ScatterMulOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  bool needsData = gradients.isNeeded(getX()), needsUpdates = gradients.isNeeded(getUpdates());
  if (!dy || (!needsData && !needsUpdates))
    return success();
  Formula f(builder, getLoc());
  auto multiply = [&](Value x, Value updates) {
    return f.build<ScatterMulOp>(x, updates, getIndices(), getAxis()).getY();
  };
  auto taken = [&](Value of) { return f.build<TakeAlongOp>(of, getIndices(), getAxis()).getY(); };
  if (needsData) {
    Value ones = f.broadcast(f.scalar(1.0, getX()), tensorType(getX()).getShape());
    gradients.add(builder, getLoc(), getX(), f.mul(dy, multiply(ones, getUpdates())));
  }
  if (!needsUpdates)
    return success();
  Value one = f.scalar(1.0, getUpdates()), none = f.scalar(0.0, getUpdates());
  auto select = [&](Value mask, Value a, Value b) { return f.build<SelectOp>(mask, a, b).getY(); };
  Value isZero = f.build<CompareOp>(getUpdates(), none, "eq").getMask();
  Value divisor = select(isZero, one, getUpdates());
  int64_t extent = tensorType(getX()).getDimSize(getAxis());
  Value zeros =
      f.build<ScatterAlongOp>(select(isZero, one, none), getIndices(), getAxis(), extent).getY();
  Value isOnly = f.build<CompareOp>(zeros, f.scalar(1.0, zeros), "eq").getMask();
  Value others = multiply(getX(), divisor);
  others = select(isOnly, others, f.scalar(0.0, others));
  Value toZeros = taken(f.mul(dy, others)), toOthers = f.div(taken(f.mul(dy, getY())), divisor);
  gradients.add(builder, getLoc(), getUpdates(), select(isZero, toZeros, toOthers));
  return success();
}

} // namespace stow
