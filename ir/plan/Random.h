// Random numbers for generators of problems and for searches.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace stow {

/// SplitMix64 (Steele, Lea, Flood 2014): small, well mixed, and the same stream on every platform,
/// unlike the distributions of <random>.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  uint64_t bits() {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Uniform in [low, high], both included.
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  /// Uniform in [0, limit).
  int32_t below(size_t limit) { return static_cast<int32_t>((bits() >> 11) % limit); }
  /// Uniform in [0, 1).
  double real() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return real() < probability; }
  /// floor(2^U(low, high)).
  int64_t logUniform(double low, double high) {
    return static_cast<int64_t>(std::exp2(low + (high - low) * real()));
  }
  /// Sum of twelve uniforms: close enough to a standard normal, and exact on every machine.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += real();
    return sum;
  }

private:
  uint64_t state;
};

} // namespace stow
