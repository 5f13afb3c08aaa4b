#include "ir/StowLossOps.h"
#include "tests/reference/Rules.h"

#include <cmath>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

double ignoredOf(Operation *op) {
  return static_cast<double>(op->getAttrOfType<IntegerAttr>("ignore_index").getInt());
}

/// The share of class c in a row's target, times its weight; `weight` may be null.
double wantedShare(double target, int64_t c, int64_t classes, double smoothing,
                   const Tensor *weight) {
  double share = smoothing / static_cast<double>(classes);
  if (target == static_cast<double>(c))
    share += 1 - smoothing;
  return share * (weight ? weight->values[c] : 1);
}

std::vector<Tensor> crossEntropyRows(Operation *op, Operands operands) {
  const Tensor &logits = operands[0], &target = operands[1];
  const Tensor *weight = operands.size() > 2 ? &operands[2] : nullptr;
  double smoothing = number(cast<CrossEntropyRowsOp>(op).getLabelSmoothing());
  int64_t rows = logits.shape[0], classes = logits.shape[1];
  Tensor loss({rows}), lse({rows});
  for (int64_t r = 0; r < rows; ++r) {
    double largest = logits({r, 0}), sum = 0;
    for (int64_t c = 1; c < classes; ++c)
      largest = std::max(largest, logits({r, c}));
    for (int64_t c = 0; c < classes; ++c)
      sum += std::exp(logits({r, c}) - largest);
    lse.values[r] = largest + std::log(sum);
    if (target.values[r] == ignoredOf(op))
      continue;
    for (int64_t c = 0; c < classes; ++c)
      loss.values[r] += wantedShare(target.values[r], c, classes, smoothing, weight) *
                        (lse.values[r] - logits({r, c}));
  }
  return {loss, lse};
}

std::vector<Tensor> crossEntropyRowsGrad(Operation *op, Operands operands) {
  const Tensor &logits = operands[0], &target = operands[1], &lse = operands[2];
  const Tensor &drow = operands[3];
  const Tensor *weight = operands.size() > 4 ? &operands[4] : nullptr;
  double smoothing = number(cast<CrossEntropyRowsGradOp>(op).getLabelSmoothing());
  int64_t classes = logits.shape[1];
  Tensor dlogits(logits.shape);
  forEachIndex(logits.shape, [&](const Index &at) {
    int64_t r = at[0];
    if (target.values[r] == ignoredOf(op))
      return;
    double total = 0;
    for (int64_t c = 0; c < classes; ++c)
      total += wantedShare(target.values[r], c, classes, smoothing, weight);
    double wanted = wantedShare(target.values[r], at[1], classes, smoothing, weight);
    dlogits(at) = (std::exp(logits(at) - lse.values[r]) * total - wanted) * drow.values[r];
  });
  return {dlogits};
}

std::vector<Tensor> nllRows(Operation *op, Operands operands) {
  const Tensor &x = operands[0], &target = operands[1];
  Tensor loss({x.shape[0]});
  for (int64_t r = 0; r < loss.size(); ++r)
    if (target.values[r] != ignoredOf(op))
      loss.values[r] = -x({r, static_cast<int64_t>(target.values[r])});
  return {loss};
}

std::vector<Tensor> nllRowsGrad(Operation *op, Operands operands) {
  const Tensor &target = operands[0], &drow = operands[1];
  Tensor dx({target.size(), static_cast<int64_t>(cast<NllRowsGradOp>(op).getClasses())});
  for (int64_t r = 0; r < target.size(); ++r)
    if (target.values[r] != ignoredOf(op))
      dx({r, static_cast<int64_t>(target.values[r])}) = -drow.values[r];
  return {dx};
}

std::vector<Tensor> classWeights(Operation *op, Operands operands) {
  Tensor y(operands[0].shape);
  for (int64_t r = 0; r < y.size(); ++r)
    if (double target = operands[0].values[r]; target != ignoredOf(op))
      y.values[r] = operands[1].values[static_cast<int64_t>(target)];
  return {y};
}

std::vector<Tensor> countValid(Operation *op, Operands operands) {
  Tensor count(std::vector<int64_t>{});
  for (double target : operands[0].values)
    count.values[0] += target != ignoredOf(op);
  return {count};
}

} // namespace

void addLossRules(Rules &rules) {
  rules["stow.cross_entropy_rows"] = crossEntropyRows;
  rules["stow.cross_entropy_rows_grad"] = crossEntropyRowsGrad;
  rules["stow.nll_rows"] = nllRows;
  rules["stow.nll_rows_grad"] = nllRowsGrad;
  rules["stow.class_weights"] = classWeights;
  rules["stow.count_valid"] = countValid;
}

} // namespace stow::reference
