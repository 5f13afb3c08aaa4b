// Reading by index and choosing by mask: Gather and Where.
#include "compiler/import/GraphImport.h"

#include <numeric>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Gather with constant indices: every run of consecutive ones is a slice.
void gatherConstant(NodeImport &node, const Literal &index, int64_t axis) {
  constexpr size_t maxRuns = 64;
  Value x = node.value(0);
  Shape shape = shapeOf(x), starts(shape.size(), 0), sizes = shape;
  if (index.isFloat() || index.ints.empty())
    throw Error::badInput("gathers with indices that are no integers");
  SmallVector<std::pair<int64_t, int64_t>> runs; // first index, count
  for (int64_t at : index.ints) {
    at += at < 0 ? shape[axis] : 0;
    if (runs.empty() || at != runs.back().first + runs.back().second)
      runs.push_back({at, 0});
    ++runs.back().second;
  }
  if (runs.size() > maxRuns)
    throw Error::badInput("gathers " + std::to_string(runs.size()) + " separate pieces; at most " +
                          std::to_string(maxRuns) + " are supported");
  SmallVector<Value> parts;
  for (auto [start, count] : runs) {
    starts[axis] = start;
    sizes[axis] = count;
    parts.push_back(node.slice(x, starts, sizes));
  }
  Value y = parts.front();
  if (parts.size() > 1)
    y = node.emit<ConcatOp>(parts, [&](ConcatOp::Properties &p) { p.axis = node.i64(axis); });
  Shape result(shape.begin(), shape.begin() + axis);
  result.insert(result.end(), index.shape.begin(), index.shape.end());
  result.insert(result.end(), shape.begin() + axis + 1, shape.end());
  node.bind(0, node.reshape(y, result));
}

Value transposed(NodeImport &node, Value x, ArrayRef<int64_t> order) {
  if (llvm::is_sorted(order))
    return x;
  return node.emit<TransposeOp>(
      x, [&](TransposeOp::Properties &p) { p.permutation = node.array(order); });
}

/// Gather by data: rows of a table. An axis other than 0 is brought to the front and its place is
/// taken by the dimensions of the indices afterwards.
void gatherData(NodeImport &node, int64_t axis) {
  Value x = node.value(0), indices = node.value(1);
  if (!isa<FloatType>(cast<RankedTensorType>(x.getType()).getElementType()))
    throw Error::badInput("gathers from a tensor of integers by data; only float tables are "
                          "supported");
  if (!cast<RankedTensorType>(indices.getType()).getElementType().isInteger())
    throw Error::badInput("gathers with indices that are no integers");
  auto rank = static_cast<int64_t>(shapeOf(x).size());
  auto added = static_cast<int64_t>(shapeOf(indices).size());
  std::vector<int64_t> front(rank), back(rank + added - 1);
  std::iota(front.begin(), front.end(), 0);
  std::rotate(front.begin(), front.begin() + axis, front.begin() + axis + 1);
  std::iota(back.begin(), back.end(), 0);
  std::rotate(back.begin(), back.begin() + added, back.begin() + added + axis);
  Value table = transposed(node, x, front);
  // The op takes tables of rows; numbers are rows of one.
  if (rank == 1)
    table = node.reshape(table, {shapeOf(x)[0], 1});
  Value y = node.emit<EmbeddingOp>({table, indices});
  if (rank == 1)
    y = node.reshape(y, shapeOf(indices));
  node.bind(0, transposed(node, y, back));
}

void convertGather(NodeImport &node) {
  auto rank = static_cast<int64_t>(node.shape(0).size());
  if (rank == 0)
    throw Error::badInput("gathers from a scalar");
  int64_t axis = normalizedAxis(node.integer("axis", 0), rank);
  if (const Literal *index = node.literal(1))
    gatherConstant(node, *index, axis);
  else
    gatherData(node, axis);
}

void convertWhere(NodeImport &node) {
  Value condition = node.value(0);
  if (!cast<RankedTensorType>(condition.getType()).getElementType().isInteger(1))
    throw Error::badInput("chooses by a condition that is no boolean");
  node.bind(0, node.emit<SelectOp>({condition, node.value(1), node.value(2)}));
}

} // namespace

void addIndexRules(RuleTable &table) {
  table["Gather"] = {convertGather, 2, 2};
  table["Where"] = {convertWhere, 3, 3};
}

} // namespace stow::onnx
