#include "compiler/eager/Strides.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace stow::eager {

Strides rowMajor(const Shape &shape) {
  Strides strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

bool isDense(const Shape &shape, const Strides &strides) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (size_t dimension : order) {
    if (shape[dimension] == 1)
      continue;
    if (strides[dimension] != expected)
      return false;
    expected *= shape[dimension];
  }
  return true;
}

std::optional<Strides> viewed(const Shape &shape, const Strides &strides, const Shape &target) {
  // Dimensions that lie behind each other without gaps are one; each target dimension lies within one such.
  Strides result(target.size(), 1);
  size_t at = target.size();
  int64_t base = shape.empty() ? 1 : strides.back(), count = 1, taken = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    count *= shape[i];
    const bool joins = i > 0 && (shape[i - 1] == 1 || strides[i - 1] == count * base);
    if (joins)
      continue;
    while (at > 0 && (taken < count || target[at - 1] == 1)) {
      result[--at] = taken * base;
      taken *= target[at];
    }
    if (taken != count)
      return std::nullopt;
    if (i > 0) {
      base = strides[i - 1];
      count = taken = 1;
    }
  }
  for (; at > 0 && target[at - 1] == 1; --at)
    result[at - 1] = 1;
  return at == 0 ? std::optional(result) : std::nullopt;
}

} // namespace stow::eager
