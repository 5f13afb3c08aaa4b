// Strides and stored elements of layouts, against figures made by hand and against all permutations of a small tensor.
#include "runtime/base/Layout.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

using testing::ElementsAre;

TEST(LayoutTest, GapsCountUpToTheLastElement) {
  const Shape shape = {2, 3, 5};
  const Layout rows = {.order = {}, .blocks = {}, .pitch = Layout::Pitch{2, 7}};
  EXPECT_THAT(outerStrides(rows, shape), ElementsAre(21, 7, 1));
  EXPECT_EQ(storedElementCount(rows, shape), 21 + 2 * 7 + 4 + 1);
  const Layout turned = {.order = {0, 2, 1}, .blocks = {}, .pitch = Layout::Pitch{1, 8}};
  EXPECT_THAT(outerStrides(turned, shape), ElementsAre(40, 1, 8));
  EXPECT_EQ(storedElementCount(turned, shape), 40 + 2 + 4 * 8 + 1);
  const Layout outermost = {.order = {}, .blocks = {}, .pitch = Layout::Pitch{0, 9}};
  EXPECT_EQ(storedElementCount(outermost, shape), 30); // no gap between its own elements
  EXPECT_EQ(storedElementCount(rows, {2, 0, 5}), 0);
}

TEST(LayoutTest, EveryOrderStoresEachElementOnce) {
  const Shape shape = {2, 3, 4, 5};
  Layout layout = {.order = {0, 1, 2, 3}, .blocks = {}};
  do {
    int64_t expected = 1;
    const std::vector<int64_t> strides = outerStrides(layout, shape);
    for (size_t i = shape.size(); i-- > 0; expected *= shape[layout.order[i]])
      EXPECT_EQ(strides[layout.order[i]], expected) << formatLayout(layout);
    EXPECT_EQ(storedElementCount(layout, shape), 120) << formatLayout(layout);
  } while (std::ranges::next_permutation(layout.order).found);
}

TEST(LayoutTest, BlocksAreStoredWhole) {
  const Layout blocked = parseLayout("0,1,2;1:16"), grouped = parseLayout("g3 0,1,2;1:4");
  EXPECT_THAT(outerStrides(blocked, {2, 19, 4}), ElementsAre(2 * 4 * 16, 4 * 16, 16));
  EXPECT_EQ(storedElementCount(blocked, {2, 19, 4}), 2 * 32 * 4);
  EXPECT_THAT(outerStrides(grouped, {18, 5}), ElementsAre(2 * 5 * 4, 5 * 4, 4));
  EXPECT_EQ(storedElementCount(grouped, {18, 5}), 3 * 8 * 5);
}

} // namespace
} // namespace stow
