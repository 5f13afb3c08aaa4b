// Tests products that read codes against the same loops over the floats that they stand for, bit for bit on any number of threads, and
// against sums in double.
#include "runtime/host/loops/CodedProduct.h"

#include "runtime/base/Error.h"
#include "runtime/host/Float16.h"
#include "runtime/host/Library.h"
#include "tests/runtime/host/Draw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ostream>
#include <vector>

namespace stow::host::test {
namespace {

struct Case {
  FewRows product;
  Quantization scheme;
};

std::ostream &operator<<(std::ostream &out, const Case &c) {
  return out << c.product.rows << "x" << c.product.columns << "x" << c.product.depth
             << (c.product.isTransposed ? ", transposed, " : ", ") << nameOf(c.scheme);
}

class CodedProductTest : public testing::TestWithParam<Case> {};

TEST_P(CodedProductTest, GivesTheBitsOfFloats) {
  const auto [p, scheme] = GetParam();
  ASSERT_TRUE(takesCodes(p));
  const int64_t elements = p.columns * p.depth;
  const std::vector<float> x = draw(p.rows * p.depth, 1), numbers = draw(elements, 2);
  std::vector<char> stored(static_cast<size_t>(partsOf(scheme, elements).size));
  quantize(scheme, numbers, stored.data());
  std::vector<float> w(numbers.size()), expected(static_cast<size_t>(p.rows * p.columns));
  dequantize(scheme, stored.data(), w);
  multiplyFloats(p, x.data(), w.data(), expected.data(), 1);
  for (int64_t threads : {1, 2, 3, 8}) {
    std::vector<float> y(expected.size(), NAN);
    multiplyCodes(p, scheme, x.data(), stored.data(), y.data(), threads);
    EXPECT_EQ(y, expected) << threads;
  }
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t column = 0; column < p.columns; ++column) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < p.depth; ++k) {
        const double term = double{x[row * p.depth + k]} *
                            w[p.isTransposed ? column * p.depth + k : k * p.columns + column];
        sum += term;
        size += std::fabs(term);
      }
      ASSERT_NEAR(expected[row * p.columns + column], sum, 1e-6 * size);
    }
}

TEST_P(CodedProductTest, GivesTheBitsOfRoundedFloats) {
  const auto [p, scheme] = GetParam();
  const int64_t elements = p.columns * p.depth;
  const std::vector<float> x = draw(p.rows * p.depth, 1);
  std::vector<char> stored(static_cast<size_t>(partsOf(scheme, elements).size));
  quantize(scheme, draw(elements, 2), stored.data());
  std::vector<float> w(static_cast<size_t>(elements)),
      expected(static_cast<size_t>(p.rows * p.columns));
  dequantize(scheme, stored.data(), w);
  const std::vector<float> exact = w;
  for (Rounding rounding : {Rounding::Bf16, Rounding::F16}) {
    for (size_t i = 0; i < w.size(); ++i)
      w[i] = rounding == Rounding::Bf16 ? widenBf16(narrowBf16(exact[i]))
                                        : widenF16(narrowF16(exact[i]));
    EXPECT_NE(w, exact);
    multiplyFloats(p, x.data(), w.data(), expected.data(), 1);
    for (int64_t threads : {1, 3}) {
      std::vector<float> y(expected.size(), NAN);
      multiplyCodes(p, scheme, x.data(), stored.data(), y.data(), threads, rounding);
      EXPECT_EQ(y, expected) << threads;
    }
  }
}

// Tests what f16 has that bf16 has not: numbers that become subnormal, 0 or infinite, as narrowF16 has them.
TEST(CodedProduct, RoundsAllOfF16) {
  const FewRows p = {1, 64, 1, false};
  const std::vector<float> one = {1};
  for (float size : {3e-8f, 3e-6f, 1e-4f, 1.0f, 2e5f}) {
    std::vector<float> numbers = draw(p.columns, 3), w(numbers.size()), y(numbers.size());
    for (float &number : numbers)
      number *= size;
    std::vector<char> stored(static_cast<size_t>(partsOf(Quantization::Int8, p.columns).size));
    quantize(Quantization::Int8, numbers, stored.data());
    dequantize(Quantization::Int8, stored.data(), w);
    for (float &number : w)
      number = widenF16(narrowF16(number));
    multiplyCodes(p, Quantization::Int8, one.data(), stored.data(), y.data(), 1, Rounding::F16);
    EXPECT_EQ(y, w) << size;
  }
}

// Tests that a scale that is no number, of any payload, makes its block's products no numbers, and leaves others alone.
TEST(CodedProduct, KeepsWhatIsNoNumber) {
  const FewRows p = {1, 2, 64, true};
  const std::vector<float> ones(static_cast<size_t>(p.depth), 1.0f);
  std::vector<char> stored(static_cast<size_t>(partsOf(Quantization::Int8, 128).size));
  quantize(Quantization::Int8, std::vector<float>(128, 1.0f), stored.data());
  const uint32_t payload = 0x7fffffff;
  std::memcpy(stored.data() + partsOf(Quantization::Int8, 128).scales, &payload, sizeof(payload));
  for (Rounding rounding : {Rounding::None, Rounding::Bf16, Rounding::F16}) {
    std::vector<float> y(2);
    multiplyCodes(p, Quantization::Int8, ones.data(), stored.data(), y.data(), 1, rounding);
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], 64);
  }
}

TEST_P(CodedProductTest, Decodes) {
  const auto [p, scheme] = GetParam();
  const int64_t elements = p.columns * p.depth;
  std::vector<char> stored(static_cast<size_t>(partsOf(scheme, elements).size));
  quantize(scheme, draw(elements, 2), stored.data());
  std::vector<float> w(static_cast<size_t>(elements)), found(w.size());
  dequantize(scheme, stored.data(), w);
  decode(scheme, elements, stored.data(), 0, elements, found.data());
  EXPECT_EQ(found, w);
}

// Rows and columns beside whole tiles, more contracted elements than a tile has, halves that meet inside a row.
std::vector<Case> cases() {
  std::vector<Case> result;
  for (Quantization scheme : {Quantization::Nf4, Quantization::Int8})
    for (int64_t rows = 1; rows <= 8; ++rows) {
      result.push_back({{rows, 35, 2176, true}, scheme});
      result.push_back({{rows, 1152, 35, false}, scheme});
    }
  for (Quantization scheme : {Quantization::Nf4, Quantization::Int8}) {
    result.push_back({{8, 2, 64, true}, scheme});
    result.push_back({{5, 128, 1, false}, scheme});
    result.push_back({{3, 1, 128, true}, scheme});
  }
  return result;
}
INSTANTIATE_TEST_SUITE_P(Shapes, CodedProductTest, testing::ValuesIn(cases()));

void isACallWithScratch(DType type) {
  const FewRows p = {3, 128, 70, false};
  const int64_t elements = p.columns * p.depth;
  const Bytes packed = partsOf(Quantization::Nf4, elements).size;
  Command command;
  command.op = CommandOp::DnnlCodedMatmul;
  command.name = "product";
  command.ints = {{"scheme", {static_cast<int64_t>(Quantization::Nf4)}}, {"transpose_b", {0}}};
  const Bytes codesAt = 512, yAt = alignUp(codesAt + packed, 64);
  command.operands = {{0, type, {p.rows, p.depth}, {}},
                      {codesAt, DType::U8, {packed}, {}},
                      {yAt, type, {p.rows, p.columns}, {}}};
  command.workspaceOffset = alignUp(yAt + p.rows * p.columns * 2, 64);
  command.workspaceBytes = queryLibrary(command, {}, 1).workspaceBytes;
  EXPECT_EQ(command.workspaceBytes, p.rows * (p.depth + p.columns) * 4);
  std::vector<float> room(
      static_cast<size_t>(command.workspaceOffset + command.workspaceBytes) / 4 + 64);
  char *arena = reinterpret_cast<char *>(room.data());
  arena += (64 - reinterpret_cast<uintptr_t>(arena) % 64) % 64;
  std::vector<float> x = draw(p.rows * p.depth, 1), w(static_cast<size_t>(elements)),
                     sums(static_cast<size_t>(p.rows * p.columns));
  quantize(Quantization::Nf4, draw(elements, 2), arena + codesAt);
  dequantize(Quantization::Nf4, arena + codesAt, w);
  auto *stored = reinterpret_cast<uint16_t *>(arena);
  narrow(type, x.data(), stored, std::ssize(x));
  widen(type, stored, x.data(), std::ssize(x));
  std::vector<uint16_t> rounded(std::max(w.size(), sums.size()));
  narrow(type, w.data(), rounded.data(), elements);
  widen(type, rounded.data(), w.data(), elements);
  multiplyFloats(p, x.data(), w.data(), sums.data(), 1);
  bindLibraryCall(command, arena, 1)->run();
  const auto *y = reinterpret_cast<const uint16_t *>(arena + yAt);
  narrow(type, sums.data(), rounded.data(), std::ssize(sums));
  for (size_t i = 0; i < sums.size(); ++i)
    ASSERT_EQ(y[i], rounded[i]) << i;
  command.operands[2].dtype = DType::F32; // one type for both
  EXPECT_THROW(queryLibrary(command, {}, 1), Error);
}

TEST(CodedProduct, InSixteenBitsIsACallWithScratch) {
  isACallWithScratch(DType::BF16);
  isACallWithScratch(DType::F16);
}

TEST(CodedProduct, IsForFewRowsOfWholeBlocks) {
  EXPECT_TRUE(takesCodes({8, 3, 64, true}));
  EXPECT_FALSE(takesCodes({9, 3, 64, true}));
  EXPECT_FALSE(takesCodes({8, 64, 96, true}));
  EXPECT_TRUE(takesCodes({8, 64, 96, false}));
}

} // namespace
} // namespace stow::host::test
