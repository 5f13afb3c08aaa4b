#include "passes/solvers/schedule/bounds/LaneBound.h"
#include "ir/plan/schedule/Generate.h"
#include "tests/Cases.h"

#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

using test::cases;

/// Four values of 10 bytes that nothing computes again, each written beside the one before it, and
/// then read by four more ops. An op takes 100, the turn between them nothing.
Problem fourSaved() {
  Problem problem;
  std::vector<ValueId> saved;
  for (int i = 0; i < 4; ++i) {
    const std::vector<ValueId> inputs = {saved.begin() + std::max(i - 1, 0), saved.end()};
    saved.push_back(problem.addValue("saved", 10));
    problem.ops[problem.addOp("write", 100, inputs, {saved.back()})].recomputable = false;
  }
  ValueId last = problem.addValue("turn", 0);
  problem.addOp("turn", 0, {saved[3]}, {last});
  for (int i = 4; i-- > 0;) {
    const ValueId next = problem.addValue("gradient", 0);
    problem.addOp("read", 100, {saved[i], last}, {next});
    last = next;
  }
  return problem;
}

Lanes slow(Cost perByte) {
  Lanes lanes;
  lanes.out = lanes.in = {1, perByte, 0};
  lanes.slowBytes = 1000;
  return lanes;
}

std::optional<Cost> boundOf(const Problem &problem, const Lanes &lanes, Bytes budget) {
  const Graph graph(problem);
  CutBound cuts(graph);
  return LaneBound(graph, cuts, lanes).time(budget, 12);
}

// Tests the three lanes at the turn, where 20 bytes too many are in memory: two buffers have gone
// out before it, and two come in behind it.
TEST(LaneBoundTest, CountsWhatHasToTravel) {
  const Problem problem = fourSaved();
  EXPECT_EQ(boundOf(problem, slow(1), 40), 800) << "all fits";
  EXPECT_EQ(boundOf(problem, slow(1), 20), 800) << "copies of 20 are hidden";
  // Behind the four writes and the first read, 500: 20 bytes at 100 each.
  EXPECT_EQ(boundOf(problem, slow(100), 20), 500 + 2000);
  Lanes oneWay = slow(100);
  oneWay.out = {1, 1, 0};
  EXPECT_EQ(boundOf(problem, oneWay, 20), 500 + 2000);
  EXPECT_EQ(boundOf(problem, slow(100), 9), std::nullopt) << "no op runs there";
}

// Tests that slow memory that is too small counts: 5 bytes of it hold none of the buffers, but the
// bound knows bytes alone.
TEST(LaneBoundTest, CountsBothMemoriesTogether) {
  const Problem problem = fourSaved();
  const Graph graph(problem);
  CutBound cuts(graph);
  Lanes lanes = slow(1);
  lanes.slowBytes = 5;
  EXPECT_EQ(LaneBound(graph, cuts, lanes).peakBound(), 35);
  lanes.slowBytes = 1000;
  EXPECT_EQ(LaneBound(graph, cuts, lanes).peakBound(), 20);
}

// Tests the bound turned round: copies of 3 bytes end within 800, so at most 3 of the 40 are away.
TEST(LaneBoundTest, BoundsThePeakWithinATime) {
  const Problem problem = fourSaved();
  const Graph graph(problem);
  CutBound cuts(graph);
  const Lanes lanes = slow(100);
  LaneBound bound(graph, cuts, lanes);
  EXPECT_EQ(bound.peakWithin(800, 40, 12), 37);
  EXPECT_EQ(bound.peakWithin(500 + 2000, 40, 12), 20);
  EXPECT_EQ(bound.peakWithin(800, 30, 12), 30) << "not above what is known";
}

// Tests that the bound falls with faster links and larger memories, to that without slow memory
// where nothing can travel.
TEST(LaneBoundTest, LiesBetweenTheLeastTimeAndTheCutBound) {
  int between = 0;
  for (uint64_t seed = 1; seed <= cases(100u); ++seed) {
    const Problem problem = generateChainStep(seed, 4 + static_cast<int>(seed % 20));
    const Graph graph(problem);
    CutBound cuts(graph);
    const Bytes budget = cuts.peakBound() + static_cast<Bytes>(seed % 7);
    const Cost without = cuts.refine(budget, 12).time.value();
    Lanes none = slow(1);
    none.slowBytes = 0;
    ASSERT_EQ(LaneBound(graph, cuts, none).time(budget, 12), without);
    Cost last = without;
    for (int factor : {1, 2, 4, 8, 1000}) {
      Lanes lanes = slow(problem.leastTime());
      lanes.out.bandwidthBytes = lanes.in.bandwidthBytes = factor * 8;
      const Cost bound = LaneBound(graph, cuts, lanes).time(budget, 12).value();
      ASSERT_LE(bound, last) << "seed " << seed << ", factor " << factor;
      ASSERT_GE(bound, problem.leastTime());
      between += bound < without && bound > problem.leastTime();
      last = bound;
    }
  }
  EXPECT_GT(between, 5);
}

} // namespace
} // namespace stow::schedule
