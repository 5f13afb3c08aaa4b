// Tests products in panels against sums in double, and bit for bit on any number of threads.
#include "runtime/host/loops/PanelProduct.h"

#include "tests/runtime/host/loops/ProductCase.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

namespace stow::host::test {
namespace {

class PanelProductTest : public testing::TestWithParam<ProductCase> {
protected:
  const ProductCase c = GetParam();
  const PanelProduct &p = c.product;
  const ProductNumbers numbers{c};

  std::vector<float> run(int64_t threads, float inScratch) const {
    std::vector<float> result = numbers.there;
    const Bytes bytes = p.scratchBytes(threads);
    const std::unique_ptr<float, decltype(&std::free)> scratch(
        static_cast<float *>(std::aligned_alloc(64, static_cast<size_t>(alignUp(bytes, 64) + 64))),
        &std::free);
    std::fill_n(scratch.get(), bytes / Bytes{sizeof(float)} + 1, inScratch);
    multiplyPanels(p, numbers.left.data(), numbers.right.data(), numbers.biasOrNull, result.data(),
                   c.becomes, reinterpret_cast<char *>(scratch.get()), threads);
    EXPECT_EQ(std::isnan(scratch.get()[bytes / Bytes{sizeof(float)}]), std::isnan(inScratch));
    return result;
  }
};

TEST_P(PanelProductTest, Multiplies) {
  const std::vector<float> result = run(1, 0);
  const double error = 2e-7 * std::sqrt(static_cast<double>(p.depth)) * 8;
  for (int64_t number = 0; number < p.count; ++number)
    for (int64_t row = 0; row < p.rows; ++row)
      for (int64_t column = 0; column < p.columns; ++column)
        ASSERT_NEAR(result[(number * p.rows + row) * p.columns + column],
                    elementOf(c, numbers, number, row, column), error)
            << number << ", " << row << ", " << column;
}

TEST_P(PanelProductTest, GivesTheSameBitsOnAnyNumberOfThreads) {
  const std::vector<float> result = run(1, 0);
  for (int64_t threads : {1, 2, 3, 8})
    EXPECT_EQ(run(threads, NAN), result) << threads;
}

std::vector<ProductCase> cases() {
  std::vector<ProductCase> result;
  for (const PanelProduct &shape :
       {PanelProduct{1, 32, 128, 64}, PanelProduct{1, 32, 2, 128}, PanelProduct{1, 13, 31, 7},
        PanelProduct{5, 1, 17, 9}, PanelProduct{1, 200, 16, 40}, PanelProduct{1, 3, 24, 600},
        PanelProduct{2, 5, 18, 2100}})
    for (bool isLeftTransposed : {false, true})
      for (bool isRightTransposed : {false, true}) {
        PanelProduct product = shape;
        product.isLeftTransposed = isLeftTransposed;
        product.isRightTransposed = isRightTransposed;
        result.push_back({product});
        result.push_back({product, true});
        result.push_back({product, false, Becomes::Added});
      }
  return result;
}
INSTANTIATE_TEST_SUITE_P(Shapes, PanelProductTest, testing::ValuesIn(cases()));

} // namespace
} // namespace stow::host::test
