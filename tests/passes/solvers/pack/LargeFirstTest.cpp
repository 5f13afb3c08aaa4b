// Packings lowered by the order of their large items.
#include "passes/solvers/pack/LargeFirst.h"
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/Greedy.h"

#include <gtest/gtest.h>

namespace stow::pack {
namespace {

constexpr auto never = [] { return false; };

/// The best of the greedy orders, with some work left.
Incumbent greedyOf(const Model &model, Bytes bound, int64_t work) {
  GreedyResult greedy = bestOfGreedy(model, bound);
  return {.model = model,
          .capacity = std::nullopt,
          .stop = never,
          .bases = std::move(greedy.bases),
          .height = greedy.height,
          .method = greedy.method,
          .lowerBound = bound,
          .workLimit = work};
}

TEST(LargeFirstTest, PackingsAreCorrectAndNeverRise) {
  int lowered = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    GenerateOptions generated;
    generated.buffers = 1 + static_cast<int32_t>(seed % 40);
    generated.horizon = 3 + static_cast<Time>(seed % 7) * 5;
    const Problem problem = generate(seed, generated);
    const Model model = makeModel(problem);
    const Bytes bound = lowerBound(problem);
    Incumbent incumbent = greedyOf(model, bound, 200'000);
    const Bytes greedy = incumbent.height;
    packLargeFirst(incumbent);
    ASSERT_TRUE(verify(problem, model.solution(incumbent.bases)).empty()) << "seed " << seed;
    ASSERT_EQ(incumbent.height, heightOfBases(model, incumbent.bases)) << "seed " << seed;
    ASSERT_LE(incumbent.height, greedy) << "seed " << seed;
    ASSERT_EQ(incumbent.method == "large first", incumbent.height < greedy) << "seed " << seed;
    lowered += incumbent.height < greedy;
  }
  EXPECT_GT(lowered, 1'000);
}

TEST(LargeFirstTest, LowersWhatGreedyOrdersLeave) {
  const Problem problem = generateNestedTraining(1'000, 3);
  const Model model = makeModel(problem);
  const Bytes bound = lowerBound(problem);
  Incumbent incumbent = greedyOf(model, bound, 100'000'000);
  EXPECT_GT(incumbent.height, bound + bound / 30);
  packLargeFirst(incumbent);
  EXPECT_EQ(incumbent.height, bound);
  EXPECT_EQ(incumbent.method, "large first");
  EXPECT_TRUE(verify(problem, model.solution(incumbent.bases)).empty());
}

TEST(LargeFirstTest, KeepsToItsLimits) {
  const Problem problem = generateNestedTraining(1'000, 1);
  const Model model = makeModel(problem);
  const Bytes bound = lowerBound(problem);
  Incumbent none = greedyOf(model, bound, 0);
  packLargeFirst(none);
  EXPECT_LT(none.work, 100'000'000);
  Incumbent some = greedyOf(model, bound, 20'000'000), again = greedyOf(model, bound, 20'000'000);
  packLargeFirst(some);
  packLargeFirst(again);
  EXPECT_LT(some.work, 40'000'000);
  EXPECT_EQ(some.work, again.work);
  EXPECT_EQ(some.bases, again.bases);
}

} // namespace
} // namespace stow::pack
