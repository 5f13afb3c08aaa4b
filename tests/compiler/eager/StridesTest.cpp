// When a tensor of another shape is a view.
#include "compiler/eager/Strides.h"

#include <gmock/gmock.h>

namespace stow::eager {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(StridesTest, RowMajorMergesAndSplits) {
  const Shape shape = {2, 3, 4};
  EXPECT_THAT(rowMajor(shape), ElementsAre(12, 4, 1));
  EXPECT_THAT(viewed(shape, rowMajor(shape), {6, 4}), Optional(ElementsAre(4, 1)));
  EXPECT_THAT(viewed(shape, rowMajor(shape), {2, 3, 2, 2}), Optional(ElementsAre(12, 4, 2, 1)));
  EXPECT_THAT(viewed(shape, rowMajor(shape), {24}), Optional(ElementsAre(1)));
}

TEST(StridesTest, TurnedDimensionsDoNotMerge) {
  EXPECT_EQ(viewed({3, 2, 4}, {4, 12, 1}, {6, 4}), std::nullopt);
  EXPECT_THAT(viewed({3, 2, 4}, {4, 12, 1}, {3, 2, 2, 2}), Optional(ElementsAre(4, 12, 2, 1)));
}

TEST(StridesTest, RepeatedRowsDoNotMergeWithOthers) {
  EXPECT_EQ(viewed({2, 3}, {0, 1}, {6}), std::nullopt);
  EXPECT_THAT(viewed({2, 3}, {0, 1}, {2, 3, 1}), Optional(ElementsAre(0, 1, 1)));
}

TEST(StridesTest, Dense) {
  EXPECT_TRUE(isDense({3, 2, 4}, {4, 12, 1}));
  EXPECT_FALSE(isDense({3, 2}, {4, 1}));
  EXPECT_FALSE(isDense({3, 2}, {0, 1}));
}

} // namespace
} // namespace stow::eager
