#include "runtime/data/Element.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace stow {
namespace {

using Kind = ElementType::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename To, typename From>
std::vector<To> convert(ElementType from, const std::vector<From> &values, DType to) {
  std::vector<To> out(values.size());
  convertElements(from, reinterpret_cast<const char *>(values.data()), to,
                  reinterpret_cast<char *>(out.data()), values.size());
  return out;
}

TEST(ElementTest, Names) {
  EXPECT_EQ(nameOf(ElementType{Kind::Unsigned, 2}), "u16");
  EXPECT_EQ(nameOf(elementTypeOf(DType::BF16)), "bf16");
  EXPECT_EQ(nameOf(elementTypeOf(DType::I1)), "bool");
  EXPECT_EQ(nameOf(elementTypeOf(DType::I64)), "i64");
}

TEST(ElementTest, WidensIntegersAndFloats) {
  EXPECT_THAT((convert<float, uint8_t>({Kind::Unsigned, 1}, {0, 255}, DType::F32)),
              ElementsAre(0, 255));
  EXPECT_THAT((convert<int64_t, int8_t>({Kind::Signed, 1}, {-1, 7}, DType::I64)),
              ElementsAre(-1, 7));
  EXPECT_THAT((convert<float, double>({Kind::Float, 8}, {0.1, -3}, DType::F32)),
              ElementsAre(0.1f, -3));
  EXPECT_THAT((convert<double, float>({Kind::Float, 4}, {0.5f}, DType::F64)), ElementsAre(0.5));
  EXPECT_THAT((convert<uint8_t, uint8_t>({Kind::Boolean, 1}, {0, 1, 2}, DType::U8)),
              ElementsAre(0, 1, 1));
  EXPECT_THAT((convert<uint8_t, int32_t>({Kind::Signed, 4}, {0, 3, -1}, DType::I1)),
              ElementsAre(0, 1, 1));
}

// Tests blocks: more elements than are converted at once.
TEST(ElementTest, ConvertsLongArrays) {
  std::vector<int32_t> values(1000);
  for (int i = 0; i < 1000; ++i)
    values[i] = i - 500;
  std::vector<float> out = convert<float>({Kind::Signed, 4}, values, DType::F32);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(out[i], i - 500);
}

TEST(ElementTest, RefusesNarrowingThatLosesAValue) {
  auto error = [](auto run) -> std::string {
    try {
      run();
    } catch (const Error &e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error([] {
                convert<int32_t, int64_t>({Kind::Signed, 8}, {1, int64_t{1} << 40}, DType::I32);
              }),
              HasSubstr("element 1 is 1099511627776, which does not fit in i32"));
  EXPECT_THAT(error([] { convert<uint8_t, int16_t>({Kind::Signed, 2}, {-1}, DType::U8); }),
              HasSubstr("element 0 is -1, which does not fit in u8"));
  EXPECT_THAT(
      error([] { convert<int64_t, uint64_t>({Kind::Unsigned, 8}, {~uint64_t{0}}, DType::I64); }),
      HasSubstr("does not fit in i64"));
  EXPECT_THAT(error([] { convert<int64_t, float>({Kind::Float, 4}, {1}, DType::I64); }),
              HasSubstr("elements of type f32 cannot become i64"));
  EXPECT_FALSE(isConvertible({Kind::Float, 4}, DType::I32));
  EXPECT_TRUE(isConvertible({Kind::Boolean, 1}, DType::I32));
  EXPECT_TRUE(isConvertible({Kind::Signed, 8}, DType::BF16));
}

// Tests that every one of the 65,536 halves survives the way to float and back.
TEST(ElementTest, AllHalvesRoundTrip) {
  for (int bits = 0; bits < 65536; ++bits) {
    std::vector<uint16_t> half = {static_cast<uint16_t>(bits)};
    std::vector<float> wide = convert<float>({Kind::Float, 2}, half, DType::F32);
    std::vector<uint16_t> back = convert<uint16_t>({Kind::Float, 4}, wide, DType::F16);
    if (std::isnan(wide[0]))
      EXPECT_EQ(back[0] & 0x7C00, 0x7C00);
    else
      EXPECT_EQ(back[0], half[0]);
  }
}

// Tests rounding to nearest even and the borders: largest half 65504, ties, subnormals.
TEST(ElementTest, HalvesRoundToNearestEven) {
  auto half = [](float value) {
    return convert<uint16_t, float>({Kind::Float, 4}, {value}, DType::F16)[0];
  };
  EXPECT_EQ(half(1.0f), 0x3C00);
  EXPECT_EQ(half(1.0f + 0x1p-11f), 0x3C00); // tie: to even
  EXPECT_EQ(half(1.0f + 0x3p-11f), 0x3C02); // tie: to even, upwards
  EXPECT_EQ(half(65504), 0x7BFF);
  EXPECT_EQ(half(65519.9f), 0x7BFF);
  EXPECT_EQ(half(65520), 0x7C00);
  EXPECT_EQ(half(-0x1p-24f), 0x8001);
  EXPECT_EQ(half(0x1p-25f), 0x0000); // tie: to even
  EXPECT_EQ(half(0x1p-14f - 0x1p-26f), 0x0400);
  EXPECT_EQ(half(std::numeric_limits<float>::infinity()), 0x7C00);
}

TEST(ElementTest, BFloatsRoundToNearestEven) {
  auto bfloat = [](float value) {
    return convert<uint16_t, float>({Kind::Float, 4}, {value}, DType::BF16)[0];
  };
  EXPECT_EQ(bfloat(1.0f), 0x3F80);
  EXPECT_EQ(bfloat(1.0f + 0x1p-8f), 0x3F80);
  EXPECT_EQ(bfloat(1.0f + 0x3p-8f), 0x3F82);
  EXPECT_TRUE(bfloat(std::bit_cast<float>(0x7F800001)) > 0x7F80); // still NaN
  std::vector<double> back(1);
  uint16_t bits = 0xC040;
  toDoubles(DType::BF16, reinterpret_cast<const char *>(&bits), back.data(), 1);
  EXPECT_EQ(back[0], -3);
}

} // namespace
} // namespace stow
