// Between f32 and the two 16-bit float types in storage, bf16 and f16.
//
// Widening is exact. Narrowing rounds to nearest, ties to even: beyond the largest finite value to
// infinity, f16's subnormals included; NaN stays NaN. The result is the same with and without the
// processor's own conversions.
#pragma once

#include "runtime/base/DType.h"

#include <bit>
#include <cstdint>

namespace stow::host {

/// `count` elements of `from` (bf16 or f16), one after the other, as f32.
void widen(DType from, const uint16_t *source, float *target, int64_t count);

/// `count` floats as elements of `to` (bf16 or f16).
void narrow(DType to, const float *source, uint16_t *target, int64_t count);

/// One element.
constexpr float widenBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
constexpr uint16_t narrowBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  bool isNan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>(isNan ? bits >> 16 | 0x40 : rounded);
}

/// Exponent and mantissa moved into f32's places and scaled: subnormals become normal on the way.
constexpr float widenF16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  if (magnitude >= 0x7c00u << 13) // infinity, or a NaN made quiet
    return std::bit_cast<float>(sign | magnitude | 0x7f800000 |
                                (magnitude > 0x7c00u << 13 ? 0x400000 : 0));
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f));
}
constexpr uint16_t narrowF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
  if (magnitude >= 0x477ff000) // 65520, halfway between the largest f16 and the next power of two
    return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) // subnormals count 2^-24, which is the last place of 0.5
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000));
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((magnitude >> 13) - (112 << 10)));
}

} // namespace stow::host
