#include "ir/plan/pack/Verify.h"
#include "tests/ir/plan/pack/Build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::pack {
namespace {

using test::add;
using testing::HasSubstr;

/// The only violation, or none.
std::optional<Violation> judge(const Problem &problem, std::vector<Bytes> offsets,
                               std::optional<Bytes> height = std::nullopt) {
  Solution solution{std::move(offsets), 0};
  solution.height = height ? *height : heightOf(problem, solution.offsets);
  std::vector<Violation> violations = verify(problem, solution);
  EXPECT_LE(violations.size(), 1u);
  if (violations.empty())
    return std::nullopt;
  return violations.front();
}

TEST(VerifyTest, AcceptsThePicture) {
  EXPECT_FALSE(judge(test::picture(), {0, 2, 2, 0}));
  EXPECT_FALSE(judge(Problem{}, {}));
}

TEST(VerifyTest, CountsOffsets) {
  std::vector<Violation> violations = verify(test::picture(), Solution{{0, 2, 2}, 6});
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].kind, ViolationKind::Shape);
}

TEST(VerifyTest, FindsAnOverlapOfOneByteAtOneInstant) {
  // c at 1 instead of 2 meets a, which ends at byte 2, at time 4 only.
  std::optional<Violation> violation = judge(test::picture(), {0, 2, 1, 5});
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->kind, ViolationKind::Overlap);
  EXPECT_EQ(std::pair(violation->first, violation->second), std::pair(2, 0));
  EXPECT_THAT(violation->message, HasSubstr("share bytes at time 4"));
}

TEST(VerifyTest, FindsAnOverlapWithTheBufferBelowAndInside) {
  Problem problem;
  add(problem, 0, 9, 10);
  add(problem, 2, 4, 2);
  for (Bytes offset : {0, 4, 8, 9})
    EXPECT_EQ(judge(problem, {0, offset})->kind, ViolationKind::Overlap) << offset;
  EXPECT_FALSE(judge(problem, {0, 10}));
  EXPECT_FALSE(judge(problem, {2, 0}));
}

TEST(VerifyTest, LifetimesAreHalfOpen) {
  Problem problem;
  add(problem, 0, 2, 4);
  add(problem, 2, 3, 4);
  EXPECT_FALSE(judge(problem, {0, 0}));
}

TEST(VerifyTest, PersistentBuffersCollideAtAllTimes) {
  Problem problem;
  add(problem, 0, 2, 4);
  add(problem, 5, 6, 4);
  EXPECT_FALSE(judge(problem, {0, 0}));
  problem.buffers[0].persistent = true;
  EXPECT_EQ(judge(problem, {0, 0})->kind, ViolationKind::Overlap);
}

TEST(VerifyTest, ChecksRangeAlignmentAndFixedOffsets) {
  Problem problem;
  add(problem, 0, 2, 4, 4);
  EXPECT_EQ(judge(problem, {-4})->kind, ViolationKind::Range);
  EXPECT_EQ(judge(problem, {2})->kind, ViolationKind::Alignment);
  problem.buffers[0].fixedOffset = 8;
  EXPECT_EQ(judge(problem, {4})->kind, ViolationKind::Fixed);
  EXPECT_FALSE(judge(problem, {8}));
}

TEST(VerifyTest, ChecksTheHeight) {
  EXPECT_EQ(judge(test::picture(), {0, 2, 2, 0}, 7)->kind, ViolationKind::Height);
  EXPECT_EQ(judge(test::picture(), {0, 2, 2, 0}, 5)->kind, ViolationKind::Height);
}

TEST(VerifyTest, ChecksSharedStorages) {
  Problem problem;
  add(problem, 0, 2, 8);
  add(problem, 1, 4, 8);
  problem.buffers[1].sameAs = 0;
  EXPECT_FALSE(judge(problem, {0, 0}));
  EXPECT_EQ(judge(problem, {0, 8})->kind, ViolationKind::Link);
}

TEST(VerifyTest, ChecksContainedBuffersAndWhatLiesBesideThem) {
  Problem problem;
  add(problem, 3, 5, 8); // container
  add(problem, 0, 4, 3); // its upper slice, earlier
  add(problem, 0, 3, 5); // may use the lower bytes until the container is born
  problem.buffers[1].inside = Inside{0, 5};
  EXPECT_FALSE(judge(problem, {0, 5, 0}));
  EXPECT_EQ(judge(problem, {0, 4, 9})->kind, ViolationKind::Link);
  EXPECT_EQ(judge(problem, {0, 5, 1})->kind, ViolationKind::Overlap);
  problem.buffers[2].life = {0, 4};
  EXPECT_EQ(judge(problem, {0, 5, 0})->kind, ViolationKind::Overlap);
}

// A member that hides behind a lower, shorter one of its storage is still seen.
TEST(VerifyTest, SeesTheLongMemberBehindAShortOne) {
  Problem problem;
  add(problem, 0, 9, 100);
  add(problem, 0, 9, 10);
  add(problem, 1, 2, 5);
  problem.buffers[1].inside = Inside{0, 20};
  EXPECT_EQ(judge(problem, {0, 20, 50})->kind, ViolationKind::Overlap);
}

} // namespace
} // namespace stow::pack
