// Random numbers for the problem generators.
#pragma once

#include <cmath>
#include <cstdint>

namespace stow::pack {

/// SplitMix64: the same stream on every platform, unlike the distributions of <random>.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  uint64_t bits() {
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// Uniform in [low, high].
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  /// Uniform in [0, 1).
  double real() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return real() < probability; }
  /// floor(2^U(low, high)).
  int64_t logUniform(double low, double high) {
    return static_cast<int64_t>(std::exp2(low + (high - low) * real()));
  }

private:
  uint64_t state;
};

} // namespace stow::pack
