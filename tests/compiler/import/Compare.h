// Tensors of model files against tensors of the reference evaluator.
#pragma once

#include "tests/compiler/import/ReferenceOf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace stow::onnx {

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
