// Numbers for tests of loops.
#pragma once

#include "runtime/base/Philox.h"

#include <vector>

namespace stow::host::test {

/// `count` numbers from [-1, 1).
inline std::vector<float> draw(int64_t count, uint64_t seed) {
  PhiloxStream random(seed, 0);
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values)
    value = static_cast<float>(random.next32()) * 0x1p-31f - 1;
  return values;
}

} // namespace stow::host::test
