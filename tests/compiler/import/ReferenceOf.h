// Tensors of model files as tensors of the reference evaluator.
#pragma once

#include "compiler/import/Literal.h"
#include "tests/reference/Evaluator.h"

namespace stow::onnx {

inline reference::Tensor referenceOf(const Tensor &tensor) {
  Literal literal = *literalOf(tensor);
  std::vector<double> values;
  for (int64_t i = 0; i < literal.size(); ++i)
    values.push_back(literal.number(i));
  return reference::Tensor(literal.shape, values);
}

} // namespace stow::onnx
