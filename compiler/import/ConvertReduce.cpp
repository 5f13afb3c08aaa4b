// Reductions and softmax.
#include "compiler/import/GraphImport.h"

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

template <typename Op> void convertReduce(NodeImport &node) {
  auto axes = reducedAxes(node);
  if (!axes || node.shape(0).empty())
    return node.bindSlot(0, 0);
  node.bind(0, reduce<Op>(node, node.value(0), *axes));
}

/// min(x) = -max(-x).
void convertReduceMin(NodeImport &node) {
  auto axes = reducedAxes(node);
  if (!axes || node.shape(0).empty())
    return node.bindSlot(0, 0);
  Value negated = node.emit<NegOp>(node.value(0));
  node.bind(0, node.emit<NegOp>(reduce<ReduceMaxOp>(node, negated, *axes)));
}

/// Norms and sums of squares: an elementwise function, a sum, and for L2 a root.
void convertReduceNorm(NodeImport &node) {
  auto axes = reducedAxes(node);
  Value x = node.value(0);
  const std::string &type = node.node().type;
  Value term = type == "ReduceL1" ? node.emit<AbsOp>(x) : node.emit<MulOp>({x, x});
  Value y = axes && !shapeOf(x).empty() ? reduce<ReduceSumOp>(node, term, *axes) : term;
  node.bind(0, type == "ReduceL2" ? node.emit<SqrtOp>(y) : y);
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
  table["ReduceL1"] = {convertReduceNorm, 1, 2};
  table["ReduceL2"] = {convertReduceNorm, 1, 2};
  table["ReduceSumSquare"] = {convertReduceNorm, 1, 2};
  table["Softmax"] = {convertSoftmax<SoftmaxOp>, 1, 1};
  table["LogSoftmax"] = {convertSoftmax<LogSoftmaxOp>, 1, 1};
}

} // namespace stow::onnx
