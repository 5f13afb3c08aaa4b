// Philox4x32-10: random numbers as a function of a counter and a key, so that any point of a random
// stream can be computed again without the points before it.
//
// Method: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace stow {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t{0xD2511F53} * counter[0];
    uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// A sequential view of one stream: the numbers of (key, stream) in order.
class PhiloxStream {
public:
  PhiloxStream(uint64_t key, uint64_t stream)
      : key{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
        counter{0, 0, static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)} {}

  uint32_t next32() {
    if (used == 4) {
      block = philox(counter, key);
      counter[1] += ++counter[0] == 0;
      used = 0;
    }
    return block[used++];
  }

  uint64_t next64() {
    uint64_t low = next32();
    return low | static_cast<uint64_t>(next32()) << 32;
  }

  /// Uniform in [0, bound), without bias; `bound` is positive. Method: Lemire, "Fast random integer
  /// generation in an interval" (ACM TOMACS 2019).
  uint64_t below(uint64_t bound) {
    unsigned __int128 product = static_cast<unsigned __int128>(next64()) * bound;
    if (static_cast<uint64_t>(product) < bound)
      for (uint64_t threshold = -bound % bound; static_cast<uint64_t>(product) < threshold;)
        product = static_cast<unsigned __int128>(next64()) * bound;
    return static_cast<uint64_t>(product >> 64);
  }

private:
  PhiloxKey key;
  PhiloxCounter counter;
  PhiloxCounter block = {};
  int used = 4;
};

} // namespace stow
