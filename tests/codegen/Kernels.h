// Kernels under test and how their results are compared.
#pragma once

#include "tests/codegen/LoadedKernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {

/// Fails unless every element is within `relative` of the expected one, or `absolute` of it.
inline void expectClose(const std::vector<float> &found, const std::vector<double> &expected,
                        double relative = 1e-6, double absolute = 1e-7) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    double tolerance = absolute + relative * std::abs(expected[i]);
    ASSERT_LE(std::abs(found[i] - expected[i]), tolerance)
        << "element " << i << ": found " << found[i] << ", expected " << expected[i];
  }
}

} // namespace stow
