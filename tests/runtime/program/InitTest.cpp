// First values: the generator's known answers, distributions, and machine independence.
#include "runtime/program/Init.h"
#include "runtime/base/Philox.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace stow {
namespace {

std::vector<double> values(const Init &init, uint64_t key, int64_t count) {
  std::vector<double> result(static_cast<size_t>(count));
  initialValues(init, key, 0, count, result.data());
  return result;
}

// Tests the known answers that the authors of Philox publish with their library (Random123).
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              testing::ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  uint32_t ones = 0xffffffff;
  EXPECT_THAT(philox({ones, ones, ones, ones}, {ones, ones}),
              testing::ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              testing::ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

// Tests that an element's value does not depend on where a chunk begins.
TEST(InitialValues, ChunksAgree) {
  for (auto kind : {Init::Kind::Uniform, Init::Kind::Normal}) {
    Init init{kind, -1, 2, 0};
    std::vector<double> whole = values(init, 42, 101), part(51);
    initialValues(init, 42, 50, 51, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 50));
  }
}

TEST(InitialValues, Constant) {
  EXPECT_THAT(values({Init::Kind::Constant, 1.5, 0, 0}, 1, 3), testing::Each(1.5));
}

// Tests range, mean and variance of a million uniform numbers in [-2, 6): mean 2, variance 64/12.
TEST(InitialValues, Uniform) {
  std::vector<double> v = values({Init::Kind::Uniform, -2, 6, 0}, tensorKey(7, "w"), 1000000);
  double sum = 0, squares = 0;
  for (double x : v) {
    ASSERT_GE(x, -2);
    ASSERT_LT(x, 6);
    sum += x;
    squares += (x - 2) * (x - 2);
  }
  EXPECT_NEAR(sum / 1e6, 2, 0.01);
  EXPECT_NEAR(squares / 1e6, 64.0 / 12, 0.02);
}

// Tests the first four moments of a million normal numbers with mean 3 and deviation 0.5.
TEST(InitialValues, Normal) {
  std::vector<double> v = values({Init::Kind::Normal, 3, 0.5, 0}, tensorKey(7, "w"), 1000000);
  double moment[5] = {};
  for (double x : v)
    for (int p = 1; p <= 4; ++p)
      moment[p] += std::pow((x - 3) / 0.5, p) / 1e6;
  EXPECT_NEAR(moment[1], 0, 0.005);
  EXPECT_NEAR(moment[2], 1, 0.01);
  EXPECT_NEAR(moment[3], 0, 0.02);
  EXPECT_NEAR(moment[4], 3, 0.05);
}

// Tests the transformation itself against the C library on the same random bits.
TEST(InitialValues, NormalIsBoxMuller) {
  std::vector<double> v = values({Init::Kind::Normal, 0, 1, 0}, 99, 20000);
  for (uint32_t block = 0; block < 10000; ++block) {
    auto bits = philox({block, 0, 0, 0}, {99, 0});
    double u = static_cast<double>((uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;
    double t = static_cast<double>((uint64_t{bits[2]} << 32 | bits[3]) >> 11) * 0x1p-53;
    double radius = std::sqrt(-2 * std::log1p(-u));
    ASSERT_NEAR(v[2 * block], radius * std::cos(2 * M_PI * t), 1e-14);
    ASSERT_NEAR(v[2 * block + 1], radius * std::sin(2 * M_PI * t), 1e-14);
  }
}

// Tests that the bits are the same on every machine: a hash over a thousand values, written down
// once. A changed hash means that seeds no longer reproduce earlier runs.
TEST(InitialValues, SameBitsEverywhere) {
  std::vector<double> v = values({Init::Kind::Normal, 0, 1, 0}, tensorKey(1, "conv1.weight"), 1000);
  uint64_t hash = 0xcbf29ce484222325;
  for (double x : v)
    hash = (hash ^ std::bit_cast<uint64_t>(x)) * 0x100000001b3;
  EXPECT_EQ(hash, 0xb939a005b86c4d57u);
}

TEST(TensorKey, DependsOnSeedAndName) {
  EXPECT_NE(tensorKey(0, "a"), tensorKey(1, "a"));
  EXPECT_NE(tensorKey(0, "a"), tensorKey(0, "b"));
  EXPECT_EQ(tensorKey(3, "a"), tensorKey(3, "a"));
}

// Tests rounding to nearest even at ties, the largest f16, overflow, subnormals and zero's sign.
TEST(EncodeValues, HalfPrecision) {
  double given[] = {1.0,     1 + 0x1p-11, 1 + 3 * 0x1p-11, 65504,       65519.9, 65520,
                    0x1p-24, 0x1p-25,     0x1.8p-24,       0x1.ffcp-15, -0.0,    -2.5};
  uint16_t found[12];
  encodeValues(DType::F16, given, 12, found);
  EXPECT_THAT(found, testing::ElementsAre(0x3c00, 0x3c00, 0x3c02, 0x7bff, 0x7bff, 0x7c00, 0x0001,
                                          0x0000, 0x0002, 0x0400, 0x8000, 0xc100));
}

TEST(EncodeValues, BrainFloat) {
  double given[] = {1.0, 1 + 0x1p-8, 1 + 3 * 0x1p-8, -3.0, 1e39};
  uint16_t found[5];
  encodeValues(DType::BF16, given, 5, found);
  EXPECT_THAT(found, testing::ElementsAre(0x3f80, 0x3f80, 0x3f82, 0xc040, 0x7f80));
}

TEST(EncodeValues, Integers) {
  double given[] = {0, 7, 1};
  int64_t wide[3];
  uint8_t bits[3];
  encodeValues(DType::I64, given, 3, wide);
  encodeValues(DType::I1, given, 3, bits);
  EXPECT_THAT(wide, testing::ElementsAre(0, 7, 1));
  EXPECT_THAT(bits, testing::ElementsAre(0, 1, 1));
}

} // namespace
} // namespace stow
