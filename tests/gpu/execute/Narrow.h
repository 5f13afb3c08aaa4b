// Floating-point formats narrower than double, by integer arithmetic.
#pragma once

#include "tests/gpu/execute/Options.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace stow::sim {

struct Format {
  int mantissa, exponent; ///< bits
  uint32_t nan;           ///< what a NaN becomes
};
inline constexpr Format kF16 = {10, 5, 0x7FFF}, kBF16 = {7, 8, 0x7FFF}, kF32 = {23, 8, 0x7FFFFFFF};

/// Whether magnitudes between q and q + 1 round up: `rest` against half of `unit`.
inline bool roundsUp(uint64_t q, uint64_t rest, uint64_t unit, bool negative, unsigned rounding) {
  if (rest == 0)
    return false;
  switch (rounding & kRoundMask) {
  case kRoundZero:
    return false;
  case kRoundDown:
    return negative;
  case kRoundUp:
    return !negative;
  case kRoundAway:
    return rest >= unit / 2;
  default:
    return rest > unit / 2 || (rest == unit / 2 && (q & 1));
  }
}

/// The bits of `value` in `format`, rounded once. Overflow gives infinity, or the largest number
/// where the rounding is toward it.
inline uint32_t encode(double value, Format format, unsigned rounding) {
  auto bits = std::bit_cast<uint64_t>(value);
  bool negative = bits >> 63;
  uint32_t sign = static_cast<uint32_t>(negative) << (format.mantissa + format.exponent);
  const uint32_t infinity = ((1u << format.exponent) - 1) << format.mantissa;
  if (std::isnan(value))
    return format.nan;
  if (std::isinf(value))
    return sign | infinity;
  if (value == 0)
    return sign;
  int exponent = static_cast<int>(bits >> 52 & 2047) - 1023;
  uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  if (exponent == -1023) { // subnormal doubles are far below every narrow format
    mantissa = 1;
    exponent = -2000;
  }
  const int least = 2 - (1 << (format.exponent - 1));
  int shift = 52 - format.mantissa + (exponent < least ? least - exponent : 0);
  if (shift > 60)
    mantissa = 1, shift = 60; // only that it is not zero matters
  uint64_t unit = uint64_t{1} << shift, q = mantissa >> shift, rest = mantissa & (unit - 1);
  q += roundsUp(q, rest, unit, negative, rounding);
  uint64_t field = q;
  if (exponent >= least)
    field += static_cast<uint64_t>(exponent - least) << format.mantissa;
  if (field >= infinity) {
    bool toward = (rounding & kRoundMask) == kRoundZero ||
                  ((rounding & kRoundMask) == kRoundDown && !negative) ||
                  ((rounding & kRoundMask) == kRoundUp && negative);
    return sign | (toward ? infinity - 1 : infinity);
  }
  return sign | static_cast<uint32_t>(field);
}

inline float f16ToFloat(uint16_t bits) {
  uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFF) << 13;
  // Scaling makes subnormals right; infinities and NaN keep their exponent of ones.
  float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  uint32_t whole =
      (bits & 0x7C00) == 0x7C00 ? magnitude | 0x7F800000 : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(whole | static_cast<uint32_t>(bits & 0x8000) << 16);
}

inline float bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// To bf16, nearest even.
inline uint16_t floatToBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return value != value ? 0x7FFF : static_cast<uint16_t>(rounded);
}

/// x + y such that a later rounding to at most 50 bits is the rounding of the exact sum.
inline double addToOdd(double x, double y) {
  double sum = x + y;
  double part = sum - x;
  double error = (x - (sum - part)) + (y - part);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (error != 0 && std::isfinite(sum) && !(bits & 1)) {
    bool away = (error > 0) == (sum > 0);
    bits += away ? 1 : -1;
  }
  return std::bit_cast<double>(bits);
}

} // namespace stow::sim
