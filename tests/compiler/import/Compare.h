// Tensors of model files against tensors of the reference evaluator.
#pragma once

#include "compiler/import/Literal.h"
#include "tests/reference/Evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace stow::onnx {

inline reference::Tensor referenceOf(const Tensor &tensor) {
  Literal literal = *literalOf(tensor);
  std::vector<double> values;
  for (int64_t i = 0; i < literal.size(); ++i)
    values.push_back(literal.number(i));
  return reference::Tensor(literal.shape, values);
}

/// Same shape, and elements within `tolerance`, relative above 1.
inline void expectNear(const reference::Tensor &actual, const reference::Tensor &expected,
                       double tolerance) {
  ASSERT_EQ(actual.shape, expected.shape);
  for (int64_t i = 0; i < expected.size(); ++i) {
    double want = expected.values[i], got = actual.values[i];
    if (std::isnan(want) || std::isinf(want))
      continue; // folding and evaluation in double may stay finite
    ASSERT_NEAR(got, want, tolerance * std::max(1.0, std::abs(want))) << "element " << i;
  }
}

} // namespace stow::onnx
