#include "compiler/import/TensorContent.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stow::onnx {
namespace {

/// Calls visit(double) for the elements until it returns false.
template <typename Visit> void forEachNumber(const Tensor &tensor, Visit visit) {
  const char *data = tensor.bytes->data();
  auto each = [&](auto stored, auto number) {
    const size_t count = tensor.bytes->size() / sizeof stored;
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&stored, data + i * sizeof stored, sizeof stored);
      if (!visit(number(stored)))
        return;
    }
  };
  switch (tensor.type) {
  case ElementType::Float:
    return each(float{}, [](float value) { return double(value); });
  case ElementType::Double:
    return each(double{}, [](double value) { return value; });
  case ElementType::BFloat16:
    return each(uint16_t{}, [](uint16_t bits) {
      const uint32_t wide = uint32_t(bits) << 16;
      float value;
      std::memcpy(&value, &wide, sizeof value);
      return double(value);
    });
  case ElementType::Float16:
    return each(uint16_t{}, [](uint16_t bits) {
      const int exponent = bits >> 10 & 31, fraction = bits & 1023;
      double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                    : std::ldexp(fraction, -24);
      return bits >> 15 ? -value : value;
    });
  default:
    return;
  }
}

bool isAllDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

} // namespace

bool isUniform(const Tensor &tensor) {
  const std::string &bytes = *tensor.bytes;
  const size_t width = static_cast<size_t>(byteWidthOf(tensor.type).value_or(1));
  return bytes.size() <= width ||
         std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0;
}

bool isAdditiveMask(const Tensor &tensor) {
  bool hasExtreme = false, hasZero = false;
  std::optional<double> other;
  bool hasTwoValues = true;
  forEachNumber(tensor, [&](double value) {
    hasExtreme = std::abs(value) >= 1e8; // infinities as well
    hasZero |= value == 0;
    if (value != 0)
      hasTwoValues &= value <= -1000 && other.value_or(value) == value;
    if (value != 0 && !other)
      other = value;
    return !hasExtreme;
  });
  return hasExtreme || (hasZero && other && hasTwoValues);
}

bool isBinaryMask(const Tensor &tensor) {
  bool hasZero = false, hasOne = false, hasOther = false;
  forEachNumber(tensor, [&](double value) {
    hasZero |= value == 0;
    hasOne |= value == 1;
    hasOther = value != 0 && value != 1;
    return !hasOther;
  });
  return hasZero && hasOne && !hasOther;
}

uint64_t contentHash(const Tensor &tensor) {
  const std::string &bytes = *tensor.bytes;
  const size_t width = static_cast<size_t>(byteWidthOf(tensor.type).value_or(1));
  uint64_t sum = 0;
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, width);
    // The finalizer of splitmix64 (Steele, Lea, Flood 2014): sums of mixed bits rarely collide.
    bits += 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    sum += bits ^ bits >> 31;
  }
  return sum;
}

bool isExporterMade(const std::string &name) {
  if (name.empty() || name[0] == '/' || name.find("::") != std::string::npos || isAllDigits(name))
    return true;
  if (name.starts_with("val_") && isAllDigits(std::string_view(name).substr(4)))
    return true;
  constexpr std::string_view output = "_output_";
  size_t at = name.rfind(output);
  return at != std::string::npos && isAllDigits(std::string_view(name).substr(at + output.size()));
}

} // namespace stow::onnx
