// Reductions and softmax.
#include "compiler/import/Decompositions.h"
#include "ir/StowDetachOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowReduceOps.h"

#include <absl/strings/str_cat.h>
#include <limits>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Sorted axes of a reduction; all of them when none is given. Absent when the op is an identity.
std::optional<std::vector<int64_t>> reducedAxes(NodeImport &node) {
  std::optional<std::vector<int64_t>> axes;
  if (node.has(1))
    axes = node.constant(1, "axes").ints;
  else
    axes = node.integers("axes");
  int64_t rank = static_cast<int64_t>(node.shape(0).size());
  if (!axes || axes->empty()) {
    if (node.flag("noop_with_empty_axes", false))
      return std::nullopt;
    axes.emplace();
    for (int64_t d = 0; d < rank; ++d)
      axes->push_back(d);
  }
  for (int64_t &axis : *axes)
    axis = normalizedAxis(axis, rank);
  llvm::sort(*axes);
  return axes;
}

template <typename Op> Value reduce(NodeImport &node, Value x, ArrayRef<int64_t> axes) {
  return node.emit<Op>(x, [&](typename Op::Properties &p) {
    p.axes = node.array(axes);
    p.keepdims = node.boolean(node.flag("keepdims", true));
  });
}

/// Integers (and booleans) are reduced in double, which holds them to 2^53.
template <typename Op> void convertReduce(NodeImport &node) {
  auto axes = reducedAxes(node);
  if (!axes || node.shape(0).empty())
    return node.bindSlot(0, 0);
  Value x = node.value(0);
  Type element = elementOf(x);
  if (isa<FloatType>(element))
    return node.bind(0, reduce<Op>(node, x, *axes));
  Value y = reduce<Op>(node, node.cast(x, node.builder().getF64Type()), *axes);
  if (std::is_same_v<Op, ReduceMeanOp>) // as quotients of integers: towards zero
    y = node.emit<RoundOp>(
        y, [&](RoundOp::Properties &p) { p.mode = node.builder().getStringAttr("zero"); });
  node.bind(0, node.cast(y, element));
}

/// min(x) = -max(-x).
void convertReduceMin(NodeImport &node) {
  auto axes = reducedAxes(node);
  if (!axes || node.shape(0).empty())
    return node.bindSlot(0, 0);
  Type element = elementOf(node.value(0));
  Value x = isa<FloatType>(element) ? node.value(0)
                                    : node.cast(node.value(0), node.builder().getF64Type());
  Value least = node.emit<NegOp>(reduce<ReduceMaxOp>(node, node.emit<NegOp>(x), *axes));
  node.bind(0, node.cast(least, element));
}

/// A product of slices: the gradient of each factor is the product of the others, zeros included.
void convertReduceProd(NodeImport &node) {
  constexpr int64_t most = 64;
  auto axes = reducedAxes(node);
  if (!axes || node.shape(0).empty())
    return node.bindSlot(0, 0);
  Value y = node.value(0);
  Shape kept = shapeOf(y), dropped;
  for (int64_t axis : *axes) {
    int64_t extent = shapeOf(y)[axis];
    if (extent > most)
      throw Error::badInput(
          absl::StrCat("multiplies ", extent, " elements; at most ", most, " are supported"));
    Shape start(kept.size(), 0), size = shapeOf(y);
    size[axis] = 1;
    SmallVector<Value> factors;
    for (start[axis] = 0; start[axis] < extent; ++start[axis])
      factors.push_back(extent == 1 ? y : node.slice(y, start, size));
    y = factors[0];
    for (Value factor : ArrayRef(factors).drop_front())
      y = node.emit<MulOp>({y, factor});
    kept[axis] = 1;
  }
  for (int64_t d = 0; d < static_cast<int64_t>(kept.size()); ++d)
    if (node.flag("keepdims", true) || !llvm::is_contained(*axes, d))
      dropped.push_back(kept[d]);
  node.bind(0, node.reshape(y, dropped));
}

/// log(sum(x)), or of the exponentials: the maximum is taken off first, so that none overflows, and where it is infinite
/// nothing. Nothing flows back through it, since the sum does not depend on it.
void convertReduceLog(NodeImport &node) {
  auto axes = reducedAxes(node);
  Value x = node.value(0);
  bool folds = axes && !shapeOf(x).empty();
  if (node.node().type == "ReduceLogSum")
    return node.bind(0, node.emit<LogOp>(folds ? reduce<ReduceSumOp>(node, x, *axes) : x));
  if (!folds)
    return node.bindSlot(0, 0);
  Value largest = node.emit<ReduceMaxOp>(x, [&](ReduceMaxOp::Properties &p) {
    p.axes = node.array(*axes);
    p.keepdims = node.boolean(true);
  });
  Value infinity = node.scalar(std::numeric_limits<double>::infinity(), largest);
  Value isInfinite = node.compare(node.emit<AbsOp>(largest), infinity, "eq");
  largest =
      node.emit<DetachOp>(node.emit<SelectOp>({isInfinite, node.scalar(0, largest), largest}));
  Value power = node.emit<ExpOp>(node.emit<SubOp>({x, largest}));
  Value y = node.emit<LogOp>(reduce<ReduceSumOp>(node, power, *axes));
  node.bind(0, node.emit<AddOp>({y, node.reshape(largest, shapeOf(y))}));
}

/// Norms and sums of squares: an elementwise function, a sum, and for L2 a root.
void convertReduceNorm(NodeImport &node) {
  auto axes = reducedAxes(node);
  Value x = node.value(0);
  const std::string &type = node.node().type;
  Value term = type == "ReduceL1" ? node.emit<AbsOp>(x) : node.emit<MulOp>({x, x});
  Value y = axes && !shapeOf(x).empty() ? reduce<ReduceSumOp>(node, term, *axes) : term;
  node.bind(0, type == "ReduceL2" ? guardedRoot(node, y) : y);
}

/// x over its norm along one axis; zeros stay zeros.
void convertLpNormalization(NodeImport &node) {
  Value x = node.value(0);
  int64_t axis = normalizedAxis(node.integer("axis", -1), shapeOf(x).size());
  int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2)
    throw Error::badInput(absl::StrCat("attribute 'p' is ", p, "; expected 1 or 2"));
  Value term = p == 1 ? node.emit<AbsOp>(x) : node.emit<MulOp>({x, x});
  Value sum = node.emit<ReduceSumOp>(term, [&](ReduceSumOp::Properties &properties) {
    properties.axes = node.array({axis});
    properties.keepdims = node.boolean(true);
  });
  Value length = p == 1 ? sum : guardedRoot(node, sum);
  Value isZero = node.compare(length, node.scalar(0, length), "eq");
  Value divisor = node.emit<SelectOp>({isZero, node.scalar(1, length), length});
  node.bind(0, node.emit<DivOp>({x, divisor}));
}

/// (x - mean) / (deviation + 1e-9) over the axes, by default all but the channels.
void convertMeanVarianceNormalization(NodeImport &node) {
  Value x = node.value(0);
  int64_t rank = static_cast<int64_t>(shapeOf(x).size());
  std::vector<int64_t> axes = node.integers("axes").value_or(std::vector<int64_t>{0, 2, 3});
  for (int64_t &axis : axes)
    axis = normalizedAxis(axis, rank);
  llvm::sort(axes);
  auto mean = [&](Value value) {
    return node.emit<ReduceMeanOp>(value, [&](ReduceMeanOp::Properties &p) {
      p.axes = node.array(axes);
      p.keepdims = node.boolean(true);
    });
  };
  Value centred = node.emit<SubOp>({x, mean(x)});
  Value deviation = guardedRoot(node, mean(node.emit<MulOp>({centred, centred})));
  node.bind(0, node.emit<DivOp>({centred, node.emit<AddOp>({deviation, node.scalar(1e-9, x)})}));
}

template <typename Op> Value softmax(NodeImport &node, Value x, int64_t axis) {
  return node.emit<Op>(x, [&](typename Op::Properties &p) { p.axis = node.i64(axis); });
}

/// From opset 13 on along one axis; before, over all dimensions from `axis` on.
template <typename Op> void convertSoftmax(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  int64_t rank = static_cast<int64_t>(shape.size());
  if (rank == 0)
    throw Error::badInput("works on a scalar");
  bool single = node.opset() >= 13;
  int64_t axis = normalizedAxis(node.integer("axis", single ? -1 : 1), rank);
  if (single || axis == rank - 1)
    return node.bind(0, softmax<Op>(node, x, axis));
  Value flat = node.reshape(x, flattenedShape(shape, axis));
  node.bind(0, node.reshape(softmax<Op>(node, flat, 1), shape));
}

} // namespace

void addReduceRules(RuleTable &table) {
  table["ReduceMean"] = {convertReduce<ReduceMeanOp>, 1, 2};
  table["ReduceSum"] = {convertReduce<ReduceSumOp>, 1, 2};
  table["ReduceMax"] = {convertReduce<ReduceMaxOp>, 1, 2};
  table["ReduceMin"] = {convertReduceMin, 1, 2};
  table["ReduceProd"] = {convertReduceProd, 1, 2};
  table["ReduceLogSum"] = {convertReduceLog, 1, 2};
  table["ReduceLogSumExp"] = {convertReduceLog, 1, 2};
  table["ReduceL1"] = {convertReduceNorm, 1, 2};
  table["ReduceL2"] = {convertReduceNorm, 1, 2};
  table["ReduceSumSquare"] = {convertReduceNorm, 1, 2};
  table["LpNormalization"] = {convertLpNormalization, 1, 1};
  table["MeanVarianceNormalization"] = {convertMeanVarianceNormalization, 1, 1};
  table["Softmax"] = {convertSoftmax<SoftmaxOp>, 1, 1};
  table["LogSoftmax"] = {convertSoftmax<LogSoftmaxOp>, 1, 1};
  takeWeights(table, {OpWeights::Kind::Function},
              {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSum",
               "ReduceLogSumExp", "ReduceL1", "ReduceL2", "ReduceSumSquare", "LpNormalization",
               "MeanVarianceNormalization", "Softmax", "LogSoftmax"});
}

} // namespace stow::onnx
