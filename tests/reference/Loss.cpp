#include "tests/reference/Rules.h"

#include <cmath>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

std::vector<Tensor> crossEntropyRows(Operation *op, Operands operands) {
  const Tensor &logits = operands[0], &target = operands[1];
  auto ignored =
      static_cast<double>(static_cast<int64_t>(cast<CrossEntropyRowsOp>(op).getIgnoreIndex()));
  int64_t rows = logits.shape[0], classes = logits.shape[1];
  Tensor loss({rows}), lse({rows});
  for (int64_t r = 0; r < rows; ++r) {
    double largest = logits({r, 0}), sum = 0;
    for (int64_t c = 1; c < classes; ++c)
      largest = std::max(largest, logits({r, c}));
    for (int64_t c = 0; c < classes; ++c)
      sum += std::exp(logits({r, c}) - largest);
    lse.values[r] = largest + std::log(sum);
    if (target.values[r] != ignored)
      loss.values[r] = lse.values[r] - logits({r, static_cast<int64_t>(target.values[r])});
  }
  return {loss, lse};
}

std::vector<Tensor> crossEntropyRowsGrad(Operation *op, Operands operands) {
  const Tensor &logits = operands[0], &target = operands[1], &lse = operands[2];
  const Tensor &drow = operands[3];
  auto ignored =
      static_cast<double>(static_cast<int64_t>(cast<CrossEntropyRowsGradOp>(op).getIgnoreIndex()));
  Tensor dlogits(logits.shape);
  forEachIndex(logits.shape, [&](const Index &at) {
    int64_t r = at[0];
    if (target.values[r] == ignored)
      return;
    double isTarget = target.values[r] == static_cast<double>(at[1]);
    dlogits(at) = (std::exp(logits(at) - lse.values[r]) - isTarget) * drow.values[r];
  });
  return {dlogits};
}

std::vector<Tensor> countValid(Operation *op, Operands operands) {
  auto ignored = static_cast<double>(static_cast<int64_t>(cast<CountValidOp>(op).getIgnoreIndex()));
  Tensor count(std::vector<int64_t>{});
  for (double target : operands[0].values)
    count.values[0] += target != ignored;
  return {count};
}

} // namespace

void addLossRules(Rules &rules) {
  rules["stow.cross_entropy_rows"] = crossEntropyRows;
  rules["stow.cross_entropy_rows_grad"] = crossEntropyRowsGrad;
  rules["stow.count_valid"] = countValid;
}

} // namespace stow::reference
