#include "tests/reference/Rules.h"

#include "ir/StowIndexOps.h"
#include "ir/StowScatterOps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// The position that an index names; nothing outside the extent.
std::optional<int64_t> positionOf(double index, int64_t extent) {
  auto at = static_cast<int64_t>(index);
  at += at < 0 ? extent : 0;
  return at >= 0 && at < extent ? std::optional(at) : std::nullopt;
}

std::vector<Tensor> takeAlong(Operation *op, Operands operands) {
  int64_t axis = cast<TakeAlongOp>(op).getAxis();
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
  Tensor y(shapeOf(op->getResult(0)), isFloat ? std::numeric_limits<double>::quiet_NaN() : 0);
  forEachIndex(y.shape, [&](const Index &at) {
    Index from = at;
    if (auto place = positionOf(operands[1].broadcast(at), operands[0].shape[axis])) {
      from[axis] = *place;
      y(at) = operands[0](from);
    }
  });
  return {y};
}

std::vector<Tensor> scatterAlong(Operation *op, Operands operands) {
  auto typed = cast<ScatterAlongOp>(op);
  int64_t axis = typed.getAxis();
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(operands[0].shape, [&](const Index &at) {
    Index to = at;
    if (auto place = positionOf(operands[1].broadcast(at), typed.getExtent())) {
      to[axis] = *place;
      y(to) += operands[0](at);
    }
  });
  return {y};
}

std::vector<Tensor> scatterMax(Operation *op, Operands operands) {
  int64_t axis = cast<ScatterMaxOp>(op).getAxis();
  Tensor y = operands[0];
  forEachIndex(operands[1].shape, [&](const Index &at) {
    Index to = at;
    if (auto place = positionOf(operands[2].broadcast(at), y.shape[axis])) {
      to[axis] = *place;
      double update = operands[1](at);
      if (std::isnan(update) || update > y(to))
        y(to) = update;
    }
  });
  return {y};
}

std::vector<Tensor> scatterMul(Operation *op, Operands operands) {
  int64_t axis = cast<ScatterMulOp>(op).getAxis();
  Tensor y = operands[0];
  forEachIndex(operands[1].shape, [&](const Index &at) {
    Index to = at;
    if (auto place = positionOf(operands[2].broadcast(at), y.shape[axis])) {
      to[axis] = *place;
      y(to) *= operands[1](at);
    }
  });
  return {y};
}

Index stepped(const Index &at, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps) {
  Index moved = at;
  for (size_t d = 0; d < at.size(); ++d)
    moved[d] = starts[d] + at[d] * steps[d];
  return moved;
}

std::vector<Tensor> stridedSlice(Operation *op, Operands operands) {
  auto typed = cast<StridedSliceOp>(op);
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(y.shape, [&](const Index &at) {
    y(at) = operands[0](stepped(at, typed.getStarts(), typed.getSteps()));
  });
  return {y};
}

std::vector<Tensor> stridedPad(Operation *op, Operands operands) {
  auto typed = cast<StridedPadOp>(op);
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(operands[0].shape, [&](const Index &at) {
    y(stepped(at, typed.getStarts(), typed.getSteps())) = operands[0](at);
  });
  return {y};
}

std::vector<Tensor> topK(Operation *op, Operands operands) {
  auto typed = cast<TopKOp>(op);
  int64_t axis = typed.getAxis(), extent = operands[0].shape[axis];
  Tensor values(shapeOf(op->getResult(0))), indices(values.shape);
  Index line = values.shape;
  line[axis] = 1;
  forEachIndex(line, [&](const Index &at) {
    std::vector<std::pair<double, int64_t>> all;
    Index from = at;
    for (from[axis] = 0; from[axis] < extent; ++from[axis])
      all.push_back({operands[0](from), from[axis]});
    std::stable_sort(all.begin(), all.end(), [&](const auto &a, const auto &b) {
      return typed.getLargest() ? a.first > b.first : a.first < b.first;
    });
    Index to = at;
    for (to[axis] = 0; to[axis] < values.shape[axis]; ++to[axis]) {
      values(to) = all[to[axis]].first;
      indices(to) = double(all[to[axis]].second);
    }
  });
  return {values, indices};
}

std::vector<Tensor> cumSum(Operation *op, Operands operands) {
  auto typed = cast<CumSumOp>(op);
  int64_t axis = typed.getAxis();
  Tensor y(operands[0].shape);
  forEachIndex(y.shape, [&](const Index &at) {
    Index from = at;
    for (from[axis] = 0; from[axis] < y.shape[axis]; ++from[axis]) {
      bool counts = from[axis] == at[axis] ? !typed.getExclusive()
                                           : (from[axis] < at[axis]) != typed.getReverse();
      y(at) += counts ? operands[0](from) : 0;
    }
  });
  return {y};
}

} // namespace

void addIndexRules(Rules &rules) {
  rules["stow.take_along"] = takeAlong;
  rules["stow.scatter_along"] = scatterAlong;
  rules["stow.scatter_max"] = scatterMax;
  rules["stow.scatter_mul"] = scatterMul;
  rules["stow.strided_slice"] = stridedSlice;
  rules["stow.strided_pad"] = stridedPad;
  rules["stow.top_k"] = topK;
  rules["stow.cumsum"] = cumSum;
}

} // namespace stow::reference
