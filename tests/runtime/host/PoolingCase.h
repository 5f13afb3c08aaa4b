// A pooling that a test of host calls goes through.
#pragma once

#include "tests/runtime/host/CallHarness.h"

#include <ostream>

namespace stow::host::test {

struct PoolingCase {
  const char *name;
  Shape src;
  std::vector<int64_t> kernel, strides, pads, dilations;

  std::map<std::string, std::vector<int64_t>> ints() const {
    return {{"kernel", kernel}, {"strides", strides}, {"pads", pads}, {"dilations", dilations}};
  }

  Shape dst() const {
    Shape shape = src;
    const size_t rank = kernel.size();
    for (size_t i = 0; i < rank; ++i)
      shape[i + 2] = (src[i + 2] + pads[i] + pads[i + rank] - (kernel[i] - 1) * dilations[i] - 1) /
                         strides[i] +
                     1;
    return shape;
  }
};

inline void PrintTo(const PoolingCase &c, std::ostream *out) { *out << c.name; }

} // namespace stow::host::test
