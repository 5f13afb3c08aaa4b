// Parts of rows whose number only data says: a mixture of experts sorts its tokens by expert, splits them, multiplies each part by
// a matrix of its own and joins them again.
//
// Shapes are static here, so each part is all rows, and carries which of them it means. What works row by row is done for all of
// them; the join chooses. Whatever else would read a part is an error.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowIndexOps.h"

#include <absl/strings/str_cat.h>
#include <numeric>
#include <set>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Operators of which row i of the result is made of row i of the first input: the other inputs must not have rows of their own.
bool worksByRows(NodeImport &node) {
  static const std::set<std::string> functions = {
      "Relu",     "Gelu", "Sigmoid", "Tanh", "Swish", "Silu", "Elu",    "Softplus",
      "Identity", "Cast", "Neg",     "Exp",  "Erf",   "Sqrt", "Dropout"};
  static const std::set<std::string> sums = {"Add", "Sub", "Mul", "Div"};
  const std::string &type = node.node().type;
  if (functions.contains(type))
    return true;
  if (sums.contains(type))
    return node.shape(1).size() < node.shape(0).size() || node.shape(1).front() == 1;
  if (type == "Gemm")
    return !node.flag("transA", false) &&
           (!node.has(2) || node.shape(2).size() < 2 || node.shape(2)[0] == 1);
  return type == "MatMul" && node.shape(1).size() == 2;
}

} // namespace

bool NodeImport::readsRowParts() const {
  for (size_t i = 0; i < inputCount(); ++i)
    if (has(i) && slot(i).part)
      return true;
  return false;
}

std::vector<std::shared_ptr<Slot>> NodeImport::rowParts(Value x, size_t sizes) {
  Value counts = value(sizes);
  if (shapeOf(counts).size() != 1 || !isa<IntegerType>(elementOf(counts)))
    throw Error::badInput("splits rows by sizes that are no list of whole numbers");
  std::vector<std::shared_ptr<Slot>> parts;
  for (int64_t i = 0; i < shapeOf(counts)[0]; ++i) {
    parts.push_back(newSlot(x));
    parts.back()->part = RowPart{counts, i};
  }
  return parts;
}

/// The part that the node's results are of; absent where it reads none. Throws where it does not work row by row.
std::optional<RowPart> GraphImport::partOf(NodeImport &node) {
  if (!node.readsRowParts() || node.node().type == "Concat")
    return std::nullopt;
  size_t others = 0;
  for (size_t i = 1; i < node.inputCount(); ++i)
    others += node.has(i) && node.slot(i).part;
  if (!node.slot(0).part || others > 0 || !worksByRows(node))
    throw Error::badInput("reads a part of rows whose number depends on data; what works row by "
                          "row is computed for all rows, "
                          "and the parts are to be joined in their order");
  return node.slot(0).part;
}

Value NodeImport::joinedRowParts(int64_t axis) {
  const std::optional<RowPart> first = slot(0).part;
  bool fits = axis == 0 && first && static_cast<int64_t>(inputCount()) == shapeOf(first->sizes)[0];
  for (size_t i = 0; fits && i < inputCount(); ++i)
    fits = slot(i).part == RowPart{first->sizes, static_cast<int64_t>(i)} && shape(i) == shape(0);
  if (!fits)
    throw Error::badInput(
        "joins parts of rows whose number depends on data, but not all of them in their order");
  const int64_t count = shape(0)[0];
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  Shape column(shape(0).size(), 1);
  column[0] = count;
  Value row = cast(integers(numbers, column), elementOf(first->sizes));
  Value starts = emit<CumSumOp>(first->sizes, [&](CumSumOp::Properties &p) {
    p.axis = i64(0);
    p.exclusive = boolean(true);
    p.reverse = boolean(false);
  });
  Value y = value(0);
  for (size_t i = 1; i < inputCount(); ++i) {
    Value start = reshape(slice(starts, {static_cast<int64_t>(i)}, {1}), Shape(column.size(), 1));
    y = emit<SelectOp>({compare(row, start, "ge"), value(i), y});
  }
  return y;
}

} // namespace stow::onnx
