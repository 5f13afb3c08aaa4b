#include "ir/plan/pack/Bound.h"
#include "tests/ir/plan/pack/Build.h"

#include <gtest/gtest.h>

namespace stow::pack {
namespace {

using test::add;

TEST(BoundTest, IsTheLoadWithoutAlignment) {
  EXPECT_EQ(maxLoad(test::picture()), 6); // a and c, then c and d
  EXPECT_EQ(lowerBound(test::picture()), 6);
  EXPECT_EQ(lowerBound(Problem{}), 0);
}

TEST(BoundTest, RoundsAllButTheTopmost) {
  Problem problem;
  add(problem, 0, 9, 60, 64);
  add(problem, 0, 9, 10, 64);
  add(problem, 0, 9, 100, 64);
  EXPECT_EQ(maxLoad(problem), 170);
  // Rounded 64 + 64 + 128; the 10 bytes go on top and need no padding: 256 - 54.
  EXPECT_EQ(lowerBound(problem), 202);
}

TEST(BoundTest, BytesBetweenAlignedBuffersMayHoldOthers) {
  Problem problem;
  add(problem, 0, 9, 10, 64);
  add(problem, 0, 9, 10, 64);
  add(problem, 0, 9, 54, 1); // fits between the two
  EXPECT_EQ(lowerBound(problem), 74);
}

TEST(BoundTest, MixedAlignmentsTakeTheStrictestSubset) {
  Problem problem;
  add(problem, 0, 9, 65, 64);
  add(problem, 0, 9, 65, 64);
  add(problem, 0, 9, 3, 2);
  EXPECT_EQ(lowerBound(problem), 193); // 128 + 65; the load is 133
}

TEST(BoundTest, CountsSharedBytesOnce) {
  Problem problem;
  add(problem, 0, 5, 8);
  add(problem, 4, 9, 6);
  problem.buffers[1].sameAs = 0;
  EXPECT_EQ(maxLoad(problem), 8);
  add(problem, 6, 9, 3);
  EXPECT_EQ(maxLoad(problem), 9); // 6 of the view + 3
}

TEST(BoundTest, CoversFixedAndPersistentBuffers) {
  Problem problem;
  add(problem, 0, 1, 8);
  problem.buffers[0].fixedOffset = 100;
  EXPECT_EQ(lowerBound(problem), 108);
  add(problem, 5, 6, 200);
  problem.buffers[1].persistent = true;
  EXPECT_EQ(lowerBound(problem), 208);
  add(problem, 5, 6, 0); // empty, but the height reaches up to it
  problem.buffers[2].fixedOffset = 300;
  EXPECT_EQ(lowerBound(problem), 300);
}

} // namespace
} // namespace stow::pack
