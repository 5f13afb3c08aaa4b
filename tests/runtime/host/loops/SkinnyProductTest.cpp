// Tests products with a short dimension against panels, which sum in the same order, bit for bit on any
// number of threads.
#include "runtime/host/loops/SkinnyProduct.h"

#include "tests/runtime/host/loops/ProductCase.h"

#include <gtest/gtest.h>

#include <vector>

namespace stow::host::test {
namespace {

class SkinnyProductTest : public testing::TestWithParam<ProductCase> {};

TEST_P(SkinnyProductTest, GivesTheBitsOfPanelsOnAnyNumberOfThreads) {
  const ProductCase c = GetParam();
  const PanelProduct &p = c.product;
  const ProductNumbers numbers(c);
  std::vector<float> expected = numbers.there;
  std::vector<char> scratch(static_cast<size_t>(p.scratchBytes(1)) + 64);
  char *aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  multiplyPanels(p, numbers.left.data(), numbers.right.data(), numbers.biasOrNull, expected.data(),
                 c.becomes, aligned, 1);
  for (int64_t threads : {1, 2, 3, 8}) {
    std::vector<float> result = numbers.there;
    multiplySkinny(p, numbers.left.data(), numbers.right.data(), numbers.biasOrNull, result.data(),
                   c.becomes, threads);
    EXPECT_EQ(result, expected) << threads;
  }
}

// Rows and columns beside whole tiles, more contracted elements than are summed at once, rows 4 KiB apart.
std::vector<ProductCase> cases() {
  std::vector<ProductCase> result;
  auto add = [&](const PanelProduct &product) {
    result.push_back({product});
    result.push_back({product, true});
    result.push_back({product, false, Becomes::Added});
  };
  for (bool isRightTransposed : {false, true})
    for (const PanelProduct &shape : {PanelProduct{1, 8, 1100, 130}, PanelProduct{1, 4, 519, 700},
                                      PanelProduct{1, 13, 131, 1100}, PanelProduct{1, 16, 61, 2060},
                                      PanelProduct{1, 7, 17, 1024}, PanelProduct{1, 9, 48, 2048}})
      add({1, shape.rows, shape.columns, shape.depth, false, isRightTransposed});
  for (const PanelProduct &shape :
       {PanelProduct{1, 400, 350, 8}, PanelProduct{1, 133, 1001, 16}, PanelProduct{1, 1003, 131, 1},
        PanelProduct{1, 5, 19, 7}, PanelProduct{1, 70, 90, 64}})
    add({1, shape.rows, shape.columns, shape.depth, true, false});
  return result;
}
INSTANTIATE_TEST_SUITE_P(Shapes, SkinnyProductTest, testing::ValuesIn(cases()));

// Tests that sizes alone decide, whatever the order of the right factor.
TEST(Skinny, IsForFewRowsOrFewContractedElementsOfLargeMatrices) {
  EXPECT_TRUE(isSkinny({1, 8, 3000, 1000, false, true}));
  EXPECT_TRUE(isSkinny({1, 8, 1000, 3000, false, false}));
  EXPECT_TRUE(isSkinny({1, 3000, 1000, 8, true, false}));
  EXPECT_FALSE(isSkinny({1, 3, 3000, 1000, false, true}));
  EXPECT_FALSE(isSkinny({1, 17, 3000, 1000, false, true}));
  EXPECT_FALSE(isSkinny({1, 8, 128, 64, false, true}));
  EXPECT_FALSE(isSkinny({1, 8, 8, 100000, false, true}));
  EXPECT_FALSE(isSkinny({4, 8, 3000, 1000, false, true}));
  EXPECT_FALSE(isSkinny({1, 3000, 1000, 17, true, false}));
  EXPECT_FALSE(isSkinny({1, 3000, 1000, 8, true, true}));
  EXPECT_FALSE(isSkinny({1, 100000, 8, 8, true, false}));
  EXPECT_TRUE(addsByRows({1, 3000, 1000, 64, true, false}));
  EXPECT_FALSE(addsByRows({1, 3000, 1000, 65, true, false}));
  EXPECT_FALSE(addsByRows({1, 8, 1000, 3000, false, false}));
}

} // namespace
} // namespace stow::host::test
