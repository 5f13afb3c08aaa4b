#include "ir/plan/schedule/LowerBound.h"

#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

// Tests the largest op: inputs 8 + 2, output 1, pinned 50.
TEST(LowerBoundTest, IsTheLargestFootprint) {
  Problem problem;
  ValueId a = problem.addValue("a", 8), b = problem.addValue("b", 2), c = problem.addValue("c", 1);
  problem.addPinned("w", 50);
  problem.addOp("a", 1, {}, {a});
  problem.addOp("b", 1, {}, {b});
  problem.addOp("c", 1, {a, b}, {c});
  EXPECT_EQ(lowerBound(problem), 61);
  EXPECT_EQ(lowerBoundWithoutRecompute(problem), 61);
  problem.ops[2].mayOverwrite = {{c, a}};
  EXPECT_EQ(lowerBound(problem), 60);
}

// Tests that all values between ancestors and descendants of the turn are counted: a chain of n
// unit ops and its backward holds n values and a gradient at the turn.
TEST(LowerBoundTest, WithoutRecomputeAChainHoldsEverything) {
  Problem problem = unitChainStep(20);
  EXPECT_EQ(lowerBoundWithoutRecompute(problem), verify(problem, inputOrder(problem)).peakBytes);
  EXPECT_EQ(lowerBound(problem), 3);
}

// Tests both bounds against every topological order of tiny problems.
TEST(LowerBoundTest, NeverAboveAnyOrder) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    Problem problem = generate(seed);
    if (problem.ops.size() > 6)
      continue;
    std::vector<OpId> order(problem.ops.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = static_cast<OpId>(i);
    const Bytes any = lowerBound(problem), once = lowerBoundWithoutRecompute(problem);
    ASSERT_LE(any, once) << "seed " << seed;
    do {
      Solution solution;
      for (OpId op : order) {
        // The leanest alternative: the bounds hold for it too.
        const auto &list = problem.ops[op].alternatives;
        auto least = std::min_element(list.begin(), list.end(), [](const auto &a, const auto &b) {
          return a.workspaceBytes < b.workspaceBytes;
        });
        solution.runs.push_back({op, static_cast<int32_t>(least - list.begin())});
      }
      Replay replay = verify(problem, solution);
      if (!replay.fault) {
        ASSERT_LE(once, replay.peakBytes) << "seed " << seed;
        ++compared;
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
  EXPECT_GT(compared, 10000);
}

} // namespace
} // namespace stow::schedule
