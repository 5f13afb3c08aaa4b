#include "runtime/program/Init.h"

#include "runtime/base/Philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

namespace stow {

namespace {

/// The finalizer of SplitMix64: a bijection that spreads every input bit.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// 53 random bits as a number in [0, 1).
double unitInterval(uint32_t high, uint32_t low) {
  uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

/// Natural logarithm of a positive normal number, from log((1+s)/(1-s)) = 2(s + s^3/3 + ...).
double logarithm(double x) {
  int exponent;
  double mantissa = std::frexp(x, &exponent); // [0.5, 1)
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  double s = (mantissa - 1) / (mantissa + 1); // |s| < 0.1716
  double square = s * s, sum = 0;
  for (int n = 23; n >= 1; n -= 2)
    sum = sum * square + 1.0 / n;
  return 2 * s * sum + exponent * std::numbers::ln2;
}

/// Cosine and sine of 2 pi times a number in [0, 1): the nearest quarter turn, then Taylor series.
void circle(double turns, double &cosine, double &sine) {
  double quarters = turns * 4;
  int quadrant = static_cast<int>(quarters + 0.5);
  double angle = (quarters - quadrant) * (std::numbers::pi / 2); // |angle| <= pi / 4
  double square = angle * angle, c = 0, s = 0;
  for (int n = 16; n >= 2; n -= 2) {
    c = (c + 1) * -square / (n * (n - 1));
    s = (s + 1) * -square / (n * (n + 1));
  }
  c += 1;
  s = (s + 1) * angle;
  switch (quadrant % 4) {
  case 0:
    cosine = c, sine = s;
    break;
  case 1:
    cosine = -s, sine = c;
    break;
  case 2:
    cosine = -c, sine = -s;
    break;
  default:
    cosine = s, sine = -c;
  }
}

uint16_t toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Rounds to nearest even. Subnormals of f16 are multiples of 2^-24, so scaling makes them
/// integers.
uint16_t toF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520.0f) // halfway between the largest f16 and the next power of two
    return sign | 0x7c00;
  if (magnitude < 0x1p-14f)
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  bits &= 0x7fffffff;
  bits += 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | ((bits >> 13) - ((127 - 15) << 10)));
}

template <typename Element, typename Convert>
void encodeAs(const double *values, int64_t count, void *elements, const Convert &convert) {
  for (int64_t i = 0; i < count; ++i) {
    Element element = convert(values[i]);
    std::memcpy(static_cast<char *>(elements) + i * sizeof(Element), &element, sizeof(Element));
  }
}

} // namespace

uint64_t tensorKey(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a, 64 bits
  for (char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mix(hash ^ mix(seed));
}

void initialValues(const Init &init, uint64_t key, int64_t begin, int64_t count, double *values) {
  if (init.kind != Init::Kind::Uniform && init.kind != Init::Kind::Normal) {
    std::fill(values, values + count, init.a);
    return;
  }
  PhiloxKey keyWords = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  for (int64_t i = 0; i < count; i += 2) {
    uint64_t block = static_cast<uint64_t>(begin + i) / 2;
    auto bits =
        philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, keyWords);
    double first = unitInterval(bits[0], bits[1]), second = unitInterval(bits[2], bits[3]);
    if (init.kind == Init::Kind::Uniform) {
      first = init.a + first * (init.b - init.a);
      second = init.a + second * (init.b - init.a);
    } else {
      double cosine, sine;
      circle(second, cosine, sine);
      double radius = std::sqrt(-2 * logarithm(1 - first)); // 1 - first is in (0, 1]
      first = init.a + init.b * (radius * cosine);
      second = init.a + init.b * (radius * sine);
    }
    values[i] = first;
    if (i + 1 < count)
      values[i + 1] = second;
  }
}

void encodeValues(DType type, const double *values, int64_t count, void *elements) {
  switch (type) {
  case DType::F64:
    return encodeAs<double>(values, count, elements, [](double v) { return v; });
  case DType::F32:
    return encodeAs<float>(values, count, elements, [](double v) { return static_cast<float>(v); });
  case DType::BF16:
    return encodeAs<uint16_t>(values, count, elements,
                              [](double v) { return toBf16(static_cast<float>(v)); });
  case DType::F16:
    return encodeAs<uint16_t>(values, count, elements,
                              [](double v) { return toF16(static_cast<float>(v)); });
  case DType::I64:
    return encodeAs<int64_t>(values, count, elements,
                             [](double v) { return static_cast<int64_t>(v); });
  case DType::I32:
    return encodeAs<int32_t>(values, count, elements,
                             [](double v) { return static_cast<int32_t>(v); });
  case DType::U8:
    return encodeAs<uint8_t>(values, count, elements,
                             [](double v) { return static_cast<uint8_t>(v); });
  case DType::I1:
    return encodeAs<uint8_t>(values, count, elements,
                             [](double v) { return static_cast<uint8_t>(v != 0); });
  }
}

} // namespace stow
