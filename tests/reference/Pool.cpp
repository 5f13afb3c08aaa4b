#include "ir/StowPoolOps.h"
#include "tests/reference/Rules.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// Calls `visit(x, position)` with the elements of the window of y's element `at` that lie inside
/// x; positions count the whole window row by row.
template <typename Op>
void forEachInWindow(Op op, const std::vector<int64_t> &x, const Index &at,
                     const std::function<void(const Index &, int64_t)> &visit) {
  auto kernel = op.getKernel(), strides = op.getStrides(), pads = op.getPads();
  auto dilations = op.getDilations();
  int64_t position = 0;
  forEachIndex(kernel.vec(), [&](const Index &tap) {
    Index from = {at[0], at[1]};
    bool isInside = true;
    for (size_t d = 0; d < tap.size(); ++d) {
      from.push_back(at[d + 2] * strides[d] - pads[d] + tap[d] * dilations[d]);
      isInside = isInside && from.back() >= 0 && from.back() < x[d + 2];
    }
    if (isInside)
      visit(from, position);
    ++position;
  });
}

template <typename Op> std::vector<Tensor> maxPool(Op op, const Tensor &x) {
  Tensor y(shapeOf(op->getResult(0))), indices(y.shape);
  forEachIndex(y.shape, [&](const Index &at) {
    double best = -std::numeric_limits<double>::infinity();
    forEachInWindow(op, x.shape, at, [&](const Index &xAt, int64_t position) {
      // The first maximum wins.
      if (x(xAt) > best) {
        best = x(xAt);
        indices(at) = static_cast<double>(position);
      }
    });
    y(at) = best;
  });
  return {y, indices};
}

std::vector<Tensor> maxPoolInference(Operation *op, Operands operands) {
  return {maxPool(cast<MaxPoolOp>(op), operands[0])[0]};
}

std::vector<Tensor> maxPoolTraining(Operation *op, Operands operands) {
  return maxPool(cast<MaxPoolTrainingOp>(op), operands[0]);
}

std::vector<Tensor> maxPoolGrad(Operation *op, Operands operands) {
  const Tensor &dy = operands[0], &indices = operands[1];
  Tensor dx(shapeOf(op->getResult(0)));
  forEachIndex(dy.shape, [&](const Index &at) {
    forEachInWindow(cast<MaxPoolGradOp>(op), dx.shape, at, [&](const Index &xAt, int64_t position) {
      if (static_cast<double>(position) == indices(at))
        dx(xAt) += dy(at);
    });
  });
  return {dx};
}

/// What the sum over the window of `at` is divided by.
template <typename Op> double windowDivisor(Op op, const std::vector<int64_t> &x, const Index &at) {
  if (op.getCountIncludePad())
    return static_cast<double>(llvm::product_of(op.getKernel()));
  double inside = 0;
  forEachInWindow(op, x, at, [&](const Index &, int64_t) { ++inside; });
  return inside;
}

std::vector<Tensor> avgPool(Operation *op, Operands operands) {
  auto typed = cast<AvgPoolOp>(op);
  const Tensor &x = operands[0];
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(y.shape, [&](const Index &at) {
    forEachInWindow(typed, x.shape, at, [&](const Index &xAt, int64_t) { y(at) += x(xAt); });
    y(at) /= windowDivisor(typed, x.shape, at);
  });
  return {y};
}

std::vector<Tensor> avgPoolGrad(Operation *op, Operands operands) {
  auto typed = cast<AvgPoolGradOp>(op);
  const Tensor &dy = operands[0];
  Tensor dx(shapeOf(op->getResult(0)));
  forEachIndex(dy.shape, [&](const Index &at) {
    double share = dy(at) / windowDivisor(typed, dx.shape, at);
    forEachInWindow(typed, dx.shape, at, [&](const Index &xAt, int64_t) { dx(xAt) += share; });
  });
  return {dx};
}

} // namespace

void addPoolRules(Rules &rules) {
  rules["stow.max_pool"] = maxPoolInference;
  rules["stow.max_pool_training"] = maxPoolTraining;
  rules["stow.max_pool_grad"] = maxPoolGrad;
  rules["stow.avg_pool"] = avgPool;
  rules["stow.avg_pool_grad"] = avgPoolGrad;
}

} // namespace stow::reference
