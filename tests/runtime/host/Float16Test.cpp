// Conversions between f32 and the 16-bit float types, against definitions that look at the values.
#include "runtime/host/Float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace stow::host {
namespace {

/// The value of an f16 or bf16 by its fields.
double valueOf(DType type, uint16_t bits) {
  const int mantissaBits = type == DType::BF16 ? 7 : 10, exponentBits = 15 - mantissaBits;
  const int bias = (1 << (exponentBits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits & 0x7fff) >> mantissaBits, mantissa = bits & ((1 << mantissaBits) - 1);
  if (exponent == (1 << exponentBits) - 1)
    return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp(mantissa + (1 << mantissaBits), exponent - bias - mantissaBits);
}

std::vector<uint16_t> allBits() {
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = static_cast<uint16_t>(i);
  return bits;
}

class Float16Test : public testing::TestWithParam<DType> {
protected:
  float one(uint16_t bits) const {
    return GetParam() == DType::BF16 ? widenBf16(bits) : widenF16(bits);
  }
  uint16_t one(float value) const {
    return GetParam() == DType::BF16 ? narrowBf16(value) : narrowF16(value);
  }
  /// In bulk and alone, which must agree.
  std::vector<uint16_t> narrowed(const std::vector<float> &values) const {
    std::vector<uint16_t> found(values.size());
    narrow(GetParam(), values.data(), found.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(found[i], one(values[i])) << values[i];
    return found;
  }
};

// Tests every one of the 65,536 values: widening gives what the fields say, and narrowing gives the
// same bits back. NaN comes back as a quiet one.
TEST_P(Float16Test, EveryValue) {
  const std::vector<uint16_t> bits = allBits();
  std::vector<float> wide(bits.size());
  widen(GetParam(), bits.data(), wide.data(), static_cast<int64_t>(bits.size()));
  const std::vector<uint16_t> back = narrowed(wide);
  for (size_t i = 0; i < bits.size(); ++i) {
    const double expected = valueOf(GetParam(), bits[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide[i]) && std::isnan(one(bits[i]))) << i;
      EXPECT_TRUE(std::isnan(valueOf(GetParam(), back[i]))) << i;
      continue;
    }
    ASSERT_EQ(wide[i], expected) << i;
    ASSERT_EQ(std::signbit(wide[i]), std::signbit(expected)) << i;
    ASSERT_EQ(wide[i], one(bits[i])) << i;
    ASSERT_EQ(back[i], bits[i]);
  }
}

// Tests values halfway between neighbours, which go to the even one, and those right beside: from
// the smallest subnormal to beyond the largest finite value, which become infinite.
TEST_P(Float16Test, RoundsToNearestEven) {
  const uint16_t infinity = GetParam() == DType::BF16 ? 0x7f80 : 0x7c00;
  std::vector<float> values;
  std::vector<uint16_t> expected;
  for (uint16_t bits = 0; bits < infinity; ++bits) {
    const double low = valueOf(GetParam(), bits);
    const double high = bits + 1 == infinity ? 2 * low - valueOf(GetParam(), bits - 1)
                                             : valueOf(GetParam(), bits + 1);
    const float half = static_cast<float>(low / 2 + high / 2);
    if (half == 0)
      continue;
    const uint16_t even = bits % 2 == 0 ? bits : bits + 1;
    for (float sign : {1.0f, -1.0f}) {
      const uint16_t signBit = sign < 0 ? 0x8000 : 0;
      values.insert(values.end(), {sign * half, sign * std::nextafter(half, 0.0f),
                                   sign * std::nextafter(half, INFINITY)});
      expected.insert(expected.end(),
                      {static_cast<uint16_t>(even | signBit), static_cast<uint16_t>(bits | signBit),
                       static_cast<uint16_t>((bits + 1) | signBit)});
    }
  }
  EXPECT_EQ(narrowed(values), expected);
}

TEST_P(Float16Test, Extremes) {
  const float inf = INFINITY, most = std::numeric_limits<float>::max();
  const std::vector<uint16_t> found =
      narrowed({inf, -inf, most, -most, 0.0f, -0.0f, std::numeric_limits<float>::denorm_min(),
                -std::numeric_limits<float>::denorm_min()});
  const uint16_t infinity = GetParam() == DType::BF16 ? 0x7f80 : 0x7c00;
  const uint16_t minus = 0x8000;
  EXPECT_EQ(found,
            (std::vector<uint16_t>{infinity, static_cast<uint16_t>(infinity | minus), infinity,
                                   static_cast<uint16_t>(infinity | minus), 0, minus, 0, minus}));
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu})
    EXPECT_TRUE(std::isnan(valueOf(GetParam(), narrowed({std::bit_cast<float>(bits)})[0]))) << bits;
}

INSTANTIATE_TEST_SUITE_P(Types, Float16Test, testing::Values(DType::BF16, DType::F16),
                         [](const auto &info) {
                           return info.param == DType::BF16 ? "Bf16" : "F16";
                         });

} // namespace
} // namespace stow::host
