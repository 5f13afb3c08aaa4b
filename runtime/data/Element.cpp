// Conversions run in two steps through a small block of floats, where these hold all values, doubles or 64-bit integers: one loader
// per file type and one writer per stored type instead of a loop for every pair.
#include "runtime/data/Element.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace stow {

namespace {

using Kind = ElementType::Kind;

/// Elements per block; a block is 2 KiB of stack.
constexpr int64_t blockElements = 256;

float floatFromHalf(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  uint32_t exponent = half >> 10 & 31;
  uint32_t mantissa = half & 0x3FF;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7F800000 | mantissa << 13);
  if (exponent != 0)
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = std::ldexp(static_cast<float>(mantissa), -24); // subnormal or zero
  return sign ? -magnitude : magnitude;
}

uint16_t halfFromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = bits >> 16 & 0x8000;
  bits &= 0x7FFFFFFF;
  if (bits > 0x7F800000)
    return sign | 0x7E00; // NaN
  if (bits >= 0x477FF000)
    return sign | 0x7C00; // rounds to infinity: 65520 and above
  if (bits < 0x38800000) {
    // Below 2^-14 halves are multiples of 2^-24; nearbyint rounds to even.
    float steps = std::nearbyint(std::ldexp(std::bit_cast<float>(bits), 24));
    return sign | static_cast<uint16_t>(steps);
  }
  bits += 0xFFF + (bits >> 13 & 1);
  return sign | static_cast<uint16_t>((bits - 0x38000000) >> 13);
}

/// Without a branch, so that loops over it are vectorized.
uint16_t bfloatFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t quiet = bits >> 16 | 0x40; // a NaN stays one, whatever the low bits were
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

template <typename T> T loadOne(const char *source, int64_t index) {
  T value;
  std::memcpy(&value, source + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T> void storeOne(char *target, int64_t index, T value) {
  std::memcpy(target + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <typename T, typename Wide>
void loadBlock(const char *source, Wide *block, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    block[i] = static_cast<Wide>(loadOne<T>(source, i));
}

[[noreturn]] void failType(const ElementType &type) {
  throw Error::badInput("elements of type " + nameOf(type) + " are not supported");
}

/// Loads integers; u64 values above 2^63 fail.
template <typename Wide>
void loadIntegers(const ElementType &type, const char *source, Wide *block, int64_t count) {
  bool isSigned = type.kind == Kind::Signed;
  switch (type.bytes) {
  case 1:
    if (type.kind == Kind::Boolean) {
      for (int64_t i = 0; i < count; ++i)
        block[i] = source[i] != 0;
      return;
    }
    return isSigned ? loadBlock<int8_t>(source, block, count)
                    : loadBlock<uint8_t>(source, block, count);
  case 2:
    return isSigned ? loadBlock<int16_t>(source, block, count)
                    : loadBlock<uint16_t>(source, block, count);
  case 4:
    return isSigned ? loadBlock<int32_t>(source, block, count)
                    : loadBlock<uint32_t>(source, block, count);
  case 8:
    if (isSigned)
      return loadBlock<int64_t>(source, block, count);
    for (int64_t i = 0; i < count; ++i)
      if (loadOne<uint64_t>(source, i) >> 63)
        throw Error::badInput(concat("element ", i, " is ", loadOne<uint64_t>(source, i),
                                     ", which does not fit in i64"));
    return loadBlock<uint64_t>(source, block, count);
  default:
    failType(type);
  }
}

template <typename Wide>
void loadReals(const ElementType &type, const char *source, Wide *block, int64_t count) {
  if (type.isInteger())
    return loadIntegers(type, source, block, count);
  if (type.kind == Kind::BFloat && type.bytes == 2) {
    for (int64_t i = 0; i < count; ++i)
      block[i] = std::bit_cast<float>(static_cast<uint32_t>(loadOne<uint16_t>(source, i)) << 16);
    return;
  }
  if (type.kind == Kind::BFloat)
    failType(type);
  switch (type.bytes) {
  case 2:
    for (int64_t i = 0; i < count; ++i)
      block[i] = floatFromHalf(loadOne<uint16_t>(source, i));
    return;
  case 4:
    return loadBlock<float>(source, block, count);
  case 8:
    return loadBlock<double>(source, block, count);
  default:
    failType(type);
  }
}

/// Whether all of its values are numbers in f32.
bool fitsFloat(const ElementType &type) {
  return type.kind == Kind::Boolean || type.bytes <= (type.isInteger() ? 2 : 4);
}

template <typename T> void storeIntegers(const int64_t *block, char *target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (block[i] < std::numeric_limits<T>::min() || block[i] > std::numeric_limits<T>::max())
      throw Error::badInput(
          concat("element ", i, " is ", block[i], ", which does not fit in ",
                 sizeof(T) == 1 ? std::string("u8") : concat("i", 8 * sizeof(T))));
    storeOne(target, i, static_cast<T>(block[i]));
  }
}

void storeBlock(const int64_t *block, DType to, char *target, int64_t count) {
  switch (to) {
  case DType::I64:
    return storeIntegers<int64_t>(block, target, count);
  case DType::I32:
    return storeIntegers<int32_t>(block, target, count);
  case DType::U8:
    return storeIntegers<uint8_t>(block, target, count);
  case DType::I1:
    for (int64_t i = 0; i < count; ++i)
      target[i] = block[i] != 0;
    return;
  default:
    throw Error::internal("integers stored as " + std::string(nameOf(to)));
  }
}

template <typename Wide> void storeReals(const Wide *block, DType to, char *target, int64_t count) {
  switch (to) {
  case DType::F64:
    for (int64_t i = 0; i < count; ++i)
      storeOne(target, i, static_cast<double>(block[i]));
    return;
  case DType::F32:
    for (int64_t i = 0; i < count; ++i)
      storeOne(target, i, static_cast<float>(block[i]));
    return;
  case DType::F16:
    for (int64_t i = 0; i < count; ++i)
      storeOne(target, i, halfFromFloat(static_cast<float>(block[i])));
    return;
  case DType::BF16:
    for (int64_t i = 0; i < count; ++i)
      storeOne(target, i, bfloatFromFloat(static_cast<float>(block[i])));
    return;
  default:
    throw Error::internal("real numbers stored as " + std::string(nameOf(to)));
  }
}

bool isFloating(DType type) {
  return type == DType::F64 || type == DType::F32 || type == DType::F16 || type == DType::BF16;
}

} // namespace

ElementType elementTypeOf(DType type) {
  switch (type) {
  case DType::F64:
  case DType::F32:
  case DType::F16:
    return {Kind::Float, sizeOf(type)};
  case DType::BF16:
    return {Kind::BFloat, 2};
  case DType::I64:
  case DType::I32:
    return {Kind::Signed, sizeOf(type)};
  case DType::U8:
    return {Kind::Unsigned, 1};
  case DType::I1:
    break;
  }
  return {Kind::Boolean, 1};
}

std::string nameOf(const ElementType &type) {
  std::string bits = std::to_string(8 * type.bytes);
  switch (type.kind) {
  case Kind::Float:
    return "f" + bits;
  case Kind::BFloat:
    return "bf" + bits;
  case Kind::Signed:
    return "i" + bits;
  case Kind::Unsigned:
    return "u" + bits;
  case Kind::Boolean:
    break;
  }
  return "bool";
}

bool isConvertible(const ElementType &from, DType to) { return isFloating(to) || from.isInteger(); }

void convertElements(const ElementType &from, const char *source, DType to, char *target,
                     int64_t count) {
  if (from == elementTypeOf(to)) {
    if (count > 0)
      std::memcpy(target, source, count * sizeOf(to));
    return;
  }
  if (!isConvertible(from, to))
    throw Error::badInput("elements of type " + nameOf(from) + " cannot become " +
                          std::string(nameOf(to)) + "; convert the array first");
  const bool isNarrow = fitsFloat(from);
  union {
    float floats[blockElements];
    double doubles[blockElements];
    int64_t integers[blockElements];
  };
  for (int64_t start = 0; start < count; start += blockElements) {
    int64_t size = std::min(blockElements, count - start);
    const char *in = source + start * from.bytes;
    char *out = target + start * sizeOf(to);
    if (!isFloating(to)) {
      loadIntegers(from, in, integers, size);
      storeBlock(integers, to, out, size);
    } else if (isNarrow) {
      loadReals(from, in, floats, size);
      storeReals(floats, to, out, size);
    } else {
      loadReals(from, in, doubles, size);
      storeReals(doubles, to, out, size);
    }
  }
}

void toDoubles(DType from, const char *source, double *target, int64_t count) {
  loadReals(elementTypeOf(from), source, target, count);
}

} // namespace stow
