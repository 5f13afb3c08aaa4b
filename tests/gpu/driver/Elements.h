// Elements of floating-point tensors as the stand-ins for libraries read and write them: arithmetic is
// in double, and what is stored is rounded to f32 and from there to the nearest even.
#pragma once

#include "runtime/base/DType.h"

#include <bit>

namespace stow::sim {

inline double load(const void *base, DType type, int64_t at) {
  if (type == DType::F64)
    return static_cast<const double *>(base)[at];
  if (type == DType::F32)
    return static_cast<const float *>(base)[at];
  const uint16_t bits = static_cast<const uint16_t *>(base)[at];
  if (type == DType::BF16)
    return std::bit_cast<float>(uint32_t{bits} << 16);
  return static_cast<double>(std::bit_cast<_Float16>(bits));
}

inline void store(void *base, DType type, int64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == DType::F64) {
    static_cast<double *>(base)[at] = value;
  } else if (type == DType::F32) {
    static_cast<float *>(base)[at] = rounded;
  } else if (type == DType::BF16) {
    auto bits = std::bit_cast<uint32_t>(rounded);
    if (rounded == rounded)
      bits += 0x7fff + (bits >> 16 & 1);
    static_cast<uint16_t *>(base)[at] = static_cast<uint16_t>(bits >> 16);
  } else {
    static_cast<uint16_t *>(base)[at] = std::bit_cast<uint16_t>(static_cast<_Float16>(rounded));
  }
}

} // namespace stow::sim
