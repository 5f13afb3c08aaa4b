#include "ir/StowReduceOps.h"
#include "tests/reference/Rules.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// Folds every element of x into the result's element that stands for it.
template <typename Op>
std::vector<Tensor> reduce(Op op, const Tensor &x, double initial,
                           const std::function<double(double, double)> &combine) {
  Tensor y(shapeOf(op->getResult(0)), initial);
  forEachIndex(x.shape, [&](const Index &at) {
    Index to;
    for (int64_t dim = 0; dim < x.rank(); ++dim) {
      if (!llvm::is_contained(op.getAxes(), dim))
        to.push_back(at[dim]);
      else if (op.getKeepdims())
        to.push_back(0);
    }
    y(to) = combine(y(to), x(at));
  });
  return {y};
}

std::vector<Tensor> reduceSum(Operation *op, Operands operands) {
  return reduce(cast<ReduceSumOp>(op), operands[0], 0.0,
                [](double sum, double x) { return sum + x; });
}

std::vector<Tensor> reduceSumSquares(Operation *op, Operands operands) {
  return reduce(cast<ReduceSumSquaresOp>(op), operands[0], 0.0,
                [](double sum, double x) { return sum + x * x; });
}

std::vector<Tensor> reduceMean(Operation *op, Operands operands) {
  auto results = reduce(cast<ReduceMeanOp>(op), operands[0], 0.0,
                        [](double sum, double x) { return sum + x; });
  for (double &value : results[0].values)
    value *= static_cast<double>(results[0].size()) / static_cast<double>(operands[0].size());
  return results;
}

std::vector<Tensor> reduceMax(Operation *op, Operands operands) {
  return reduce(cast<ReduceMaxOp>(op), operands[0], -std::numeric_limits<double>::infinity(),
                [](double best, double x) { return std::max(best, x); });
}

/// Calls `visit` with the indices of each line of `shape` along `axis`.
void forEachLine(const std::vector<int64_t> &shape, int64_t axis,
                 const std::function<void(const std::vector<Index> &)> &visit) {
  std::vector<int64_t> starts = shape;
  starts[axis] = 1;
  forEachIndex(starts, [&](const Index &start) {
    std::vector<Index> line;
    for (int64_t i = 0; i < shape[axis]; ++i) {
      line.push_back(start);
      line.back()[axis] = i;
    }
    visit(line);
  });
}

/// ln(exp(x) / sum(exp(x))) along a line, in place of x.
void takeLogSoftmax(Tensor &x, const std::vector<Index> &line) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const Index &at : line)
    largest = std::max(largest, x(at));
  for (const Index &at : line)
    sum += std::exp(x(at) - largest);
  for (const Index &at : line)
    x(at) = x(at) - largest - std::log(sum);
}

std::vector<Tensor> softmax(Operation *op, Operands operands) {
  Tensor y = operands[0];
  forEachLine(y.shape, cast<SoftmaxOp>(op).getAxis(), [&](auto &line) {
    takeLogSoftmax(y, line);
    for (const Index &at : line)
      y(at) = std::exp(y(at));
  });
  return {y};
}

std::vector<Tensor> logSoftmax(Operation *op, Operands operands) {
  Tensor y = operands[0];
  forEachLine(y.shape, cast<LogSoftmaxOp>(op).getAxis(),
              [&](auto &line) { takeLogSoftmax(y, line); });
  return {y};
}

/// dx = y * (dy - sum(dy * y)).
std::vector<Tensor> softmaxGrad(Operation *op, Operands operands) {
  const Tensor &dy = operands[0], &y = operands[1];
  Tensor dx(y.shape);
  forEachLine(y.shape, cast<SoftmaxGradOp>(op).getAxis(), [&](auto &line) {
    double sum = 0;
    for (const Index &at : line)
      sum += dy(at) * y(at);
    for (const Index &at : line)
      dx(at) = y(at) * (dy(at) - sum);
  });
  return {dx};
}

/// dx = dy - exp(y) * sum(dy).
std::vector<Tensor> logSoftmaxGrad(Operation *op, Operands operands) {
  const Tensor &dy = operands[0], &y = operands[1];
  Tensor dx(y.shape);
  forEachLine(y.shape, cast<LogSoftmaxGradOp>(op).getAxis(), [&](auto &line) {
    double sum = 0;
    for (const Index &at : line)
      sum += dy(at);
    for (const Index &at : line)
      dx(at) = dy(at) - std::exp(y(at)) * sum;
  });
  return {dx};
}

} // namespace

void addReduceRules(Rules &rules) {
  rules["stow.reduce_sum"] = reduceSum;
  rules["stow.reduce_sum_squares"] = reduceSumSquares;
  rules["stow.reduce_mean"] = reduceMean;
  rules["stow.reduce_max"] = reduceMax;
  rules["stow.softmax"] = softmax;
  rules["stow.log_softmax"] = logSoftmax;
  rules["stow.softmax_grad"] = softmaxGrad;
  rules["stow.log_softmax_grad"] = logSoftmaxGrad;
}

} // namespace stow::reference
