// Tests products in strips: bit for bit those of panels up to 256 contracted elements, beyond that near sums in double;
// the same bits on any number of threads.
#include "runtime/host/loops/StripProduct.h"

#include "tests/runtime/host/loops/ProductCase.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace stow::host::test {
namespace {

class StripProductTest : public testing::TestWithParam<ProductCase> {
protected:
  const ProductCase c = GetParam();
  const PanelProduct &p = c.product;
  const ProductNumbers numbers{c};

  /// By `multiply`, with scratch that is full of what is no number.
  std::vector<float> run(decltype(multiplyStrips) &multiply, Bytes bytes, int64_t threads) const {
    std::vector<float> result = numbers.there;
    const size_t count = static_cast<size_t>(bytes) / sizeof(float);
    std::vector<float> scratch(count + 16 + 1, std::numeric_limits<float>::quiet_NaN());
    const size_t skipped = (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64 / 4;
    scratch[skipped + count] = 7;
    multiply(p, numbers.left.data(), numbers.right.data(), numbers.biasOrNull, result.data(),
             c.becomes, reinterpret_cast<char *>(scratch.data() + skipped), threads);
    EXPECT_EQ(scratch[skipped + count], 7) << "behind the scratch";
    return result;
  }
  std::vector<float> strips(int64_t threads) const {
    return run(multiplyStrips, stripScratchBytes(p, threads), threads);
  }
};

TEST_P(StripProductTest, GivesTheBitsOfPanelsOrTheSumsOfDoubles) {
  const std::vector<float> result = strips(1);
  if (p.depth <= 256) {
    EXPECT_EQ(result, run(multiplyPanels, p.scratchBytes(1), 1));
    return;
  }
  const double error = 2e-7 * std::sqrt(static_cast<double>(p.depth)) * 8;
  for (int64_t number = 0; number < p.count; ++number)
    for (int64_t row = 0; row < p.rows; ++row)
      for (int64_t column = 0; column < p.columns; ++column)
        ASSERT_NEAR(result[static_cast<size_t>((number * p.rows + row) * p.columns + column)],
                    elementOf(c, numbers, number, row, column), error)
            << number << ", " << row << ", " << column;
}

TEST_P(StripProductTest, GivesTheSameBitsOnAnyNumberOfThreads) {
  const std::vector<float> result = strips(1);
  for (int64_t threads : {2, 3, 16})
    EXPECT_EQ(strips(threads), result) << threads;
}

// More contracted elements than a strip has, with a rest; rows beside whole blocks; fewer strips than threads.
std::vector<ProductCase> cases() {
  std::vector<ProductCase> result;
  for (const PanelProduct &shape : {PanelProduct{1, 64, 512, 70}, PanelProduct{1, 17, 1024, 300},
                                    PanelProduct{2, 19, 512, 256}, PanelProduct{1, 100, 512, 1100}})
    for (bool isLeftTransposed : {false, true}) {
      PanelProduct product = shape;
      product.isLeftTransposed = isLeftTransposed;
      result.push_back({product});
      result.push_back({product, true});
      if (isForStrips(product, Becomes::Added))
        result.push_back({product, false, Becomes::Added});
    }
  return result;
}
INSTANTIATE_TEST_SUITE_P(Shapes, StripProductTest, testing::ValuesIn(cases()));

// Tests that sizes alone decide.
TEST(Strips, AreForRowsThatShareLinesOfTheCaches) {
  EXPECT_TRUE(isForStrips({1, 64, 2048, 2048}, Becomes::Result));
  EXPECT_TRUE(isForStrips({4, 64, 512, 64, true}, Becomes::Result));
  EXPECT_TRUE(isForStrips({1, 64, 512, 256}, Becomes::Added));
  EXPECT_FALSE(isForStrips({1, 64, 512, 257}, Becomes::Added)); // several sums would be added
  EXPECT_FALSE(isForStrips({1, 64, 2048, 2048, false, true}, Becomes::Result));
  EXPECT_FALSE(isForStrips({1, 64, 2000, 2048}, Becomes::Result));
  EXPECT_FALSE(isForStrips({1, 16, 2048, 2048}, Becomes::Result));
  EXPECT_FALSE(isForStrips({1, 512, 2048, 2048}, Becomes::Result)); // the library packs it
}

} // namespace
} // namespace stow::host::test
