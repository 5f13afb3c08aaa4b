#include "tests/reference/Rules.h"

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// One dimension after the other, straight from the attributes.
std::vector<Tensor> resample(Operation *op, Operands operands) {
  auto typed = cast<ResampleOp>(op);
  Tensor y = operands[0];
  size_t first = 0; // of the axis' starts
  for (size_t k = 0; k < typed.getAxes().size(); ++k) {
    int64_t axis = typed.getAxes()[k], extent = typed.getExtents()[k];
    Tensor x = y;
    std::vector<int64_t> shape = x.shape;
    shape[axis] = extent;
    y = Tensor(shape);
    forEachIndex(shape, [&](const Index &at) {
      int64_t begin = typed.getStarts()[first + at[axis]];
      int64_t end = typed.getStarts()[first + at[axis] + 1];
      for (int64_t term = begin; term < end; ++term) {
        Index from = at;
        from[axis] = typed.getSources()[term];
        y(at) += typed.getWeights()[term] * x(from);
      }
    });
    first += extent + 1;
  }
  return {y};
}

std::vector<Tensor> rearrange(Operation *op, Operands operands) {
  auto typed = cast<RearrangeOp>(op);
  Tensor split(typed.getFactors().vec(), operands[0].values);
  std::vector<int64_t> permuted;
  for (int64_t from : typed.getPermutation())
    permuted.push_back(split.shape[from]);
  Tensor joined(permuted);
  forEachIndex(permuted, [&](const Index &at) {
    Index from(at.size());
    for (size_t dim = 0; dim < at.size(); ++dim)
      from[typed.getPermutation()[dim]] = at[dim];
    joined(at) = split(from);
  });
  return {Tensor(shapeOf(op->getResult(0)), joined.values)};
}

} // namespace

void addResampleRules(Rules &rules) {
  rules["stow.resample"] = resample;
  rules["stow.rearrange"] = rearrange;
}

} // namespace stow::reference
