// Numbers in memory as the types of tensors keep them.
#pragma once

#include "runtime/host/Float16.h"

#include <cstring>
#include <string>
#include <vector>

namespace stow {

inline size_t bytesOf(const std::string &type) { return type == "f64" ? 8 : type == "f32" ? 4 : 2; }

/// What the type keeps of a number.
inline double rounded(double value, const std::string &type) {
  const auto single = static_cast<float>(value);
  return type == "f64"    ? value
         : type == "f32"  ? single
         : type == "bf16" ? host::widenBf16(host::narrowBf16(single))
                          : host::widenF16(host::narrowF16(single));
}

/// Writes a number as the type keeps it, and reads it.
inline void put(char *at, double value, const std::string &type) {
  const auto single = static_cast<float>(value);
  const uint16_t half = type == "bf16" ? host::narrowBf16(single) : host::narrowF16(single);
  memcpy(at,
         type == "f64"   ? static_cast<const void *>(&value)
         : type == "f32" ? static_cast<const void *>(&single)
                         : &half,
         bytesOf(type));
}

inline double get(const char *at, const std::string &type) {
  if (type == "f64" || type == "f32") {
    double value = 0;
    float single = 0;
    memcpy(type == "f64" ? static_cast<void *>(&value) : &single, at, bytesOf(type));
    return type == "f64" ? value : single;
  }
  uint16_t half;
  memcpy(&half, at, sizeof half);
  return type == "bf16" ? host::widenBf16(half) : host::widenF16(half);
}

/// An array of numbers as the type keeps them.
inline std::vector<char> stored(const std::vector<double> &values, const std::string &type) {
  std::vector<char> bytes(values.size() * bytesOf(type));
  for (size_t i = 0; i < values.size(); ++i)
    put(&bytes[i * bytesOf(type)], values[i], type);
  return bytes;
}

} // namespace stow
