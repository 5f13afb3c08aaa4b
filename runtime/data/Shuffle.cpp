#include "runtime/data/Shuffle.h"

#include "runtime/base/Philox.h"

#include <numeric>
#include <utility>

namespace stow {

void shuffleEpoch(std::span<int64_t> order, uint64_t seed, uint64_t epoch) {
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream random(seed, epoch);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(i)]);
}

} // namespace stow
