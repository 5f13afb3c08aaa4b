#include "passes/solvers/schedule/search/Eviction.h"

#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/search/Chain.h"

#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

// Tests 20,000 random problems: what comes out replays as legal, overwritten values included, and
// mostly within the target.
TEST(EvictionTest, SchedulesAreLegal) {
  int longer = 0, within = 0;
  for (uint64_t seed = 1; seed <= 20000; ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    const Sequence base = graph.inputOrder();
    const Bytes high = measure(graph, base).peakBytes;
    const Bytes target = high * static_cast<Bytes>(40 + seed % 60) / 100;
    std::optional<Sequence> sequence =
        evictOnDemand(graph, base, target, kEvictionRules[seed % std::size(kEvictionRules)], 500);
    if (!sequence || sequence->size() == base.size())
      continue;
    ++longer;
    Replay replay = verify(problem, expand(problem, graph, *sequence, high));
    ASSERT_EQ(replay.fault, std::nullopt) << "seed " << seed;
    within += replay.peakBytes <= target;
  }
  EXPECT_GT(longer, 1500);
  EXPECT_GT(within, longer * 9 / 10);
}

// Tests against the optimum of unit chains (Revolve): every budget that can be met is met, and the
// best rule is within a tenth of the least time.
TEST(EvictionTest, IsNearRevolveOnChains) {
  for (int length : {10, 25, 40}) {
    Graph graph(unitChainStep(length));
    const Sequence base = graph.inputOrder();
    const Bytes high = measure(graph, base).peakBytes;
    for (Bytes target = 3; target <= high; ++target) {
      const std::optional<Sequence> optimum = rotorSchedule(graph, *asChain(graph), target);
      ASSERT_TRUE(optimum);
      std::optional<Cost> best;
      for (const EvictionRule &rule : kEvictionRules)
        if (auto sequence = evictOnDemand(graph, base, target, rule, 40 * graph.ops.size())) {
          const Measure measured = measure(graph, *sequence);
          ASSERT_TRUE(measured.legal);
          ASSERT_LE(measured.peakBytes, target) << length;
          best = std::min(best.value_or(measured.time), measured.time);
        }
      ASSERT_TRUE(best) << length << " at " << target;
      EXPECT_LE(*best * 10, measure(graph, *optimum).time * 11) << length << " at " << target;
    }
  }
}

TEST(EvictionTest, GivesUpWhereNothingFits) {
  Graph graph(unitChainStep(10));
  EXPECT_FALSE(evictOnDemand(graph, graph.inputOrder(), 2, {}, 1000)) << "an op alone needs three";
  EXPECT_FALSE(evictOnDemand(graph, graph.inputOrder(), 3, {}, 21)) << "more runs than allowed";
}

TEST(EvictionTest, RunsEveryOpOnceWhereAllFits) {
  Graph graph(gptStep(2));
  const Sequence base = graph.inputOrder();
  EXPECT_EQ(evictOnDemand(graph, base, measure(graph, base).peakBytes, {}, 10000), base);
}

} // namespace
} // namespace stow::schedule
