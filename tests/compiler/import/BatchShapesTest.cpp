// How the shapes of a static export follow another batch.
#include "compiler/import/BatchShapes.h"

#include <gtest/gtest.h>

namespace stow::onnx {
namespace {

TEST(BatchShapesTest, TheBatchStaysWithItsElements) {
  MergedDims merged;
  const BatchPair batch{2, 6};
  EXPECT_EQ(carriedShape({2, 3, 4}, {6, 3, 4}, {2, 12}, batch, merged), Shape({6, 12}));
  EXPECT_EQ(carriedShape({2, 3, 4}, {6, 3, 4}, {24}, batch, merged), Shape({72}));
  EXPECT_EQ(carriedShape({2, 3, 4}, {6, 3, 4}, {1, 2, 1, 12}, batch, merged), Shape({1, 6, 1, 12}));
  // Nothing changed: the target stays.
  EXPECT_EQ(carriedShape({2, 3}, {2, 3}, {3, 2}, batch, merged), Shape({3, 2}));
}

TEST(BatchShapesTest, HeadsJoinTheBatch) {
  MergedDims merged;
  const BatchPair batch{2, 6};
  EXPECT_EQ(carriedShape({10, 2, 32}, {10, 6, 32}, {10, 8, 8}, batch, merged), Shape({10, 24, 8}));
  // 8 = batch x 4 heads, and back.
  EXPECT_EQ(carriedShape({8, 10, 8}, {24, 10, 8}, {2, 4, 10, 8}, batch, merged),
            Shape({6, 4, 10, 8}));
}

TEST(BatchShapesTest, RowsBehindTheBatchAreRemembered) {
  MergedDims merged;
  const BatchPair batch{2, 6};
  // 4 positions x batch 2: both extents divide by 2, only one is the batch.
  EXPECT_EQ(carriedShape({4, 2, 8}, {4, 6, 8}, {8, 8}, batch, merged), Shape({24, 8}));
  EXPECT_EQ(carriedShape({8, 6}, {24, 6}, {4, 2, 6}, batch, merged), Shape({4, 6, 6}));
}

TEST(BatchShapesTest, AmbiguousExtentsAreRefused) {
  MergedDims merged;
  const BatchPair batch{2, 6};
  // Nobody said how the batch lies in 8.
  EXPECT_EQ(carriedShape({8, 6}, {24, 6}, {4, 2, 6}, batch, merged), std::nullopt);
  EXPECT_EQ(carriedShape({4, 2, 8}, {4, 6, 8}, {8, 8}, batch, merged), Shape({24, 8}));
  EXPECT_EQ(carriedShape({2, 4, 8}, {6, 4, 8}, {8, 8}, batch, merged), Shape({24, 8}));
  // Now it was said twice, differently.
  EXPECT_EQ(carriedShape({8, 6}, {24, 6}, {4, 2, 6}, batch, merged), std::nullopt);
  // Two dimensions of one group that grew; a batch that the target splits; another count.
  EXPECT_EQ(carriedShape({2, 2}, {6, 6}, {4}, batch, merged), std::nullopt);
  EXPECT_EQ(carriedShape({3, 4}, {3, 12}, {2, 6}, {4, 12}, merged), std::nullopt);
  EXPECT_EQ(carriedShape({2, 3}, {6, 3}, {7}, batch, merged), std::nullopt);
}

TEST(BatchShapesTest, BatchOfOne) {
  MergedDims merged;
  const BatchPair batch{1, 8};
  EXPECT_EQ(carriedShape({1, 5}, {8, 5}, {1, 1, 5}, batch, merged), Shape({8, 1, 5}));
  EXPECT_EQ(carriedShape({1, 48}, {8, 48}, {48}, batch, merged), Shape({384}));
}

TEST(BatchShapesTest, SamplesGrowInOneDimension) {
  const BatchPair batch{2, 6};
  BatchShapes before, now;
  before.shapes = {{"x", {2, 3}}, {"heads", {8, 5}}, {"scale", {2}}};
  now.shapes = {{"x", {6, 3}}, {"heads", {24, 5}}, {"scale", {2}}, {"new", {7}}};
  EXPECT_TRUE(growInOneDimension(before, now, batch));
  now.shapes["heads"] = {24, 15};
  EXPECT_FALSE(growInOneDimension(before, now, batch));
  now.shapes["heads"] = {9, 5};
  EXPECT_FALSE(growInOneDimension(before, now, batch));
  now.shapes["heads"] = {24, 5, 1};
  EXPECT_FALSE(growInOneDimension(before, now, batch));
}

} // namespace
} // namespace stow::onnx
