#include "tests/reference/Rules.h"

#include <limits>
#include <optional>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// The row that an index names; nothing outside the table.
std::optional<int64_t> rowOf(double index, int64_t rows) {
  auto row = static_cast<int64_t>(index);
  row += row < 0 ? rows : 0;
  return row >= 0 && row < rows ? std::optional(row) : std::nullopt;
}

std::vector<Tensor> embedding(Operation *op, Operands operands) {
  const Tensor &table = operands[0], &indices = operands[1];
  Tensor y(shapeOf(op->getResult(0)), std::numeric_limits<double>::quiet_NaN());
  int64_t width = table.size() / table.shape[0];
  for (int64_t i = 0; i < indices.size(); ++i)
    if (auto row = rowOf(indices.values[i], table.shape[0]))
      std::copy_n(table.values.begin() + *row * width, width, y.values.begin() + i * width);
  return {y};
}

std::vector<Tensor> embeddingGrad(Operation *op, Operands operands) {
  const Tensor &dy = operands[0], &indices = operands[1];
  auto padding = op->getAttrOfType<IntegerAttr>("padding_index");
  Tensor dtable(shapeOf(op->getResult(0)));
  int64_t width = dtable.size() / dtable.shape[0];
  for (int64_t i = 0; i < indices.size(); ++i)
    if (auto row = rowOf(indices.values[i], dtable.shape[0]);
        row && !(padding && padding.getInt() == *row))
      for (int64_t j = 0; j < width; ++j)
        dtable.values[*row * width + j] += dy.values[i * width + j];
  return {dtable};
}

} // namespace

void addEmbeddingRules(Rules &rules) {
  rules["stow.embedding"] = embedding;
  rules["stow.embedding_grad"] = embeddingGrad;
}

} // namespace stow::reference
