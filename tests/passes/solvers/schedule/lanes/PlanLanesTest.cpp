#include "passes/solvers/schedule/lanes/PlanLanes.h"
#include "LaneOracle.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/VerifyLanes.h"
#include "passes/solvers/schedule/lanes/Residency.h"
#include "runtime/base/Error.h"
#include "tests/Cases.h"

#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

using test::cases;

/// A step of a network, or anything that the family can express.
Problem problemOf(uint64_t seed) {
  switch (seed % 4) {
  case 0:
    return generateChainStep(seed, 4 + static_cast<int>(seed % 12));
  case 1:
    return generateInPlace(seed, 3 + static_cast<int>(seed % 6));
  case 2:
    return generateMixed(seed, 10 + static_cast<int>(seed % 30));
  default: {
    LayeredOptions options;
    options.opCount = 6 + static_cast<int>(seed % 12);
    options.width = 0.4;
    return trainingStep(generateLayered(seed, options));
  }
  }
}

PlanOptions quick() {
  PlanOptions options;
  options.effort = 0.05;
  return options;
}

Bytes share(const LanePlanner &planner, int percent) {
  return percentOf(planner.inputOrderPeak(), percent);
}

/// As a number that is larger the worse: what is not found is the worst.
Cost timeOf(const LanePlanResult &result) { return result.solution ? result.time : kAnyTime; }

// Tests that answers are legal, what they say of themselves is what the checker finds, and no worse
// than recomputation alone, which the planner without lanes answers; and never below the bound.
TEST(PlanLanesTest, IsLegalAndNoWorseThanRecomputation) {
  int better = 0, fetched = 0;
  for (uint64_t seed = 1; seed <= cases(200u); ++seed) {
    const Problem problem = problemOf(seed);
    const Lanes lanes = generateLanes(seed, problem);
    LanePlanner planner(problem, quick());
    Planner without(problem, quick());
    for (int percent : {85, 60, 40}) {
      const Bytes budget = share(planner, percent);
      const LanePlanResult result = planner.plan(budget, lanes);
      const PlanResult plain = without.plan(budget);
      if (plain.solution) {
        ASSERT_TRUE(result.solution) << "seed " << seed;
        ASSERT_LE(result.time, plain.time) << "seed " << seed;
        ASSERT_EQ(result.recomputeTime, plain.time) << "seed " << seed;
        better += result.time < plain.time;
      }
      if (!result.solution)
        continue;
      const LaneReplay replay = verify(problem, lanes, *result.solution, budget);
      ASSERT_EQ(replay.fault, std::nullopt) << "seed " << seed;
      ASSERT_EQ(replay.time, result.time);
      ASSERT_EQ(replay.computeTime + result.exposed, result.time);
      ASSERT_EQ(replay.bytesIn, result.bytesIn);
      ASSERT_EQ(replay.peakBytes, result.peakBytes);
      ASSERT_EQ(replay.slowPeakBytes, result.slowPeakBytes);
      ASSERT_GE(result.time, result.bound()) << "seed " << seed << " at " << percent;
      ASSERT_GE(result.peakBytes, result.peakBound);
      const Bytes withinTime = planner.peakWithinTime(result, lanes);
      ASSERT_LE(withinTime, result.peakBytes);
      ASSERT_GE(withinTime, result.peakBound);
      fetched += result.bytesIn > 0;
    }
  }
  EXPECT_GT(better, 5);
  EXPECT_GT(fetched, 10);
}

/// A step with state in slow memory, which costs in plain schedules what its copies take.
struct Travelling {
  Problem problem;
  Lanes lanes;
};
Travelling travelling(uint64_t seed, const Problem &problem, int most) {
  Travelling result = {withTravellingState(seed, problem, most), generateLanes(seed, problem)};
  for (Op &op : result.problem.ops)
    if (op.lane != OpLane::Compute)
      op.alternatives[0].cost =
          op.lane == OpLane::Out ? result.lanes.out.duration(result.problem.sizeOf(op.inputs[0]))
                                 : result.lanes.in.duration(result.problem.sizeOf(op.outputs[0]));
  return result;
}

// Tests the same with state in slow memory: legal, never below the bounds, and mostly faster than
// the planner without lanes, which waits for each copy.
TEST(PlanLanesTest, CopiesStateBesideOps) {
  int faster = 0, found = 0, checked = 0;
  for (uint64_t seed = 1; seed <= cases(150u); ++seed) {
    const auto [problem, lanes] = travelling(seed, problemOf(seed), 4);
    LanePlanner planner(problem, quick());
    Planner without(problem, quick());
    for (int percent : {100, 80, 60}) {
      const Bytes budget = share(planner, percent);
      const LanePlanResult result = planner.plan(budget, lanes, Ways::Travel),
                           alone = planner.plan(budget, lanes, Ways::Recompute);
      const PlanResult plain = without.plan(budget);
      ASSERT_EQ(alone.solution.has_value(), plain.solution.has_value());
      if (plain.solution) {
        ASSERT_EQ(alone.recomputeTime, plain.time) << "seed " << seed;
        ASSERT_EQ(alone.time, plain.time);
        ASSERT_LE(alone.bound(), alone.time);
        ++checked;
        found += result.solution.has_value();
        faster += result.solution && result.time < plain.time;
      }
      if (!result.solution)
        continue;
      const LaneReplay replay = verify(problem, lanes, *result.solution, budget);
      ASSERT_EQ(replay.fault, std::nullopt) << "seed " << seed;
      ASSERT_EQ(replay.time, result.time);
      ASSERT_GE(result.time, result.bound()) << "seed " << seed << " at " << percent;
      ASSERT_GE(result.peakBytes, result.peakBound);
      ASSERT_GT(result.bytesIn, 0);
    }
  }
  EXPECT_GE(10 * found, 9 * checked);
  EXPECT_GE(10 * faster, 8 * checked);
}

// Tests that more of anything is never slower: of the budget, of slow memory, of bandwidth.
TEST(PlanLanesTest, IsMonotone) {
  for (uint64_t seed = 1; seed <= cases(100u); ++seed) {
    const Problem problem =
        seed % 3 ? problemOf(seed) : withTravellingState(seed, problemOf(seed), 3);
    const Lanes lanes = generateLanes(seed, problem);
    LanePlanner planner(problem, quick());
    Cost last = kAnyTime;
    for (int percent : {25, 33, 40, 47, 55, 63, 70, 86, 95}) {
      const Cost time = timeOf(planner.plan(share(planner, percent), lanes));
      ASSERT_LE(time, last) << "seed " << seed << ", budget " << percent << " %";
      last = time;
    }
    const Bytes budget = share(planner, 50);
    last = kAnyTime;
    for (int tenths : {0, 2, 5, 9, 10, 15, 40}) {
      Lanes larger = lanes;
      larger.slowBytes = planner.inputOrderPeak() * tenths / 10;
      const Cost time = timeOf(planner.plan(budget, larger));
      ASSERT_LE(time, last) << "seed " << seed << ", slow memory " << tenths;
      last = time;
    }
    last = kAnyTime;
    for (int factor : {1, 2, 3, 5, 7, 12, 40, 1000}) {
      Lanes faster = lanes;
      faster.out.bandwidthBytes *= factor;
      faster.in.bandwidthBytes *= factor;
      const Cost time = timeOf(planner.plan(budget, faster));
      ASSERT_LE(time, last) << "seed " << seed << ", bandwidth times " << factor;
      last = time;
    }
  }
}

// Tests that the same question has the same answer, whatever was asked before.
TEST(PlanLanesTest, IsDeterministic) {
  for (uint64_t seed = 1; seed <= cases(40u); ++seed) {
    const Problem problem = problemOf(seed);
    const Lanes lanes = generateLanes(seed, problem);
    LanePlanner first(problem, quick()), second(problem, quick());
    const Bytes budget = share(first, 55);
    for (int percent : {90, 30, 70})
      second.plan(share(second, percent), lanes);
    const LanePlanResult one = first.plan(budget, lanes), other = second.plan(budget, lanes);
    ASSERT_EQ(one.solution, other.solution) << "seed " << seed;
    ASSERT_EQ(one.timeBound, other.timeBound) << "seed " << seed;
    ASSERT_EQ(first.plan(budget, lanes).solution, one.solution) << "seed " << seed;
  }
}

// Tests that copies which ops hide cost nothing, and that a link which hides none is not used.
TEST(PlanLanesTest, FetchesWhatIsHidden) {
  const Problem problem = unitChainStep(40);
  LanePlanner planner(problem);
  Lanes lanes;
  lanes.slowBytes = 1000;
  lanes.out = lanes.in = {1, 1, 0}; // as fast as ops
  const LanePlanResult hidden = planner.plan(share(planner, 60), lanes);
  EXPECT_EQ(hidden.time, problem.leastTime());
  EXPECT_EQ(hidden.exposed, 0);
  EXPECT_GT(hidden.bytesIn, 0);
  EXPECT_EQ(hidden.status, Status::Optimal);
  EXPECT_GT(hidden.recomputeTime, hidden.time);
  lanes.out = lanes.in = {1, 1000, 0};
  const LanePlanResult slow = planner.plan(share(planner, 60), lanes);
  EXPECT_EQ(slow.bytesIn, 0);
  EXPECT_EQ(slow.time, slow.recomputeTime);
}

// Tests that between the two, what is dear to compute again is fetched and the rest is not.
TEST(PlanLanesTest, MixesBothWays) {
  const Problem problem = unitChainStep(50);
  LanePlanner planner(problem);
  Lanes lanes;
  lanes.slowBytes = 1000;
  lanes.out = lanes.in = {1, 2, 0};
  const Bytes budget = share(planner, 40);
  const LanePlanResult both = planner.plan(budget, lanes),
                       fetch = planner.plan(budget, lanes, Ways::Fetch),
                       recompute = planner.plan(budget, lanes, Ways::Recompute);
  EXPECT_LT(both.time, fetch.time);
  EXPECT_LT(both.time, recompute.time);
  EXPECT_EQ(recompute.time, both.recomputeTime);
  EXPECT_EQ(fetch.computeTime, problem.leastTime());
  EXPECT_GT(both.computeTime, problem.leastTime());
  EXPECT_GT(both.bytesIn, 0);
}

TEST(PlanLanesTest, RefusesWhatNoMemoryHolds) {
  const Problem problem = unitChainStep(10);
  Lanes lanes;
  lanes.slowBytes = 1000;
  const LanePlanResult result = LanePlanner(problem).plan(1, lanes);
  EXPECT_EQ(result.status, Status::Infeasible);
  EXPECT_FALSE(result.solution);
  EXPECT_EQ(result.peakBound, 3);
  lanes.in.bandwidthBytes = 0;
  EXPECT_THROW(LanePlanner(problem).plan(5, lanes), Error);
}

// Tests against the optimum of an exhaustive search: never below it, and seldom far above.
TEST(PlanLanesTest, IsNearTheOptimum) {
  int checked = 0, optimal = 0, bounded = 0, withState = 0;
  double worst = 0, sum = 0;
  for (uint64_t seed = 1; seed <= cases(300u); ++seed) {
    LayeredOptions options;
    options.opCount = 3;
    options.width = 0.3;
    Problem problem = seed % 2 ? generateChainStep(seed, 3 + static_cast<int>(seed / 2 % 2))
                               : trainingStep(generateLayered(seed, options), 1);
    for (Op &op : problem.ops)
      op.alternatives[0].cost = (op.alternatives[0].cost + 2) / 3;
    Lanes lanes = generateLanes(seed, problem);
    lanes.out.latency = lanes.in.latency = 0;
    if (seed % 8 >= 6)
      problem = travelling(seed, problem, 1).problem;
    if (!isPlainAndTiny(problem))
      continue;
    withState += problem.hasLaneOps();
    LanePlanner planner(problem, quick());
    const Bytes least = planner.plan(0, lanes).peakBound;
    const Bytes budget =
        least + (planner.inputOrderPeak() - least) * static_cast<Bytes>(seed / 4 % 4) / 4;
    LaneOracle oracle(problem, lanes, budget);
    const std::optional<Cost> optimum = oracle.leastTime(15'000);
    if (!oracle.isComplete)
      continue;
    const LanePlanResult result = planner.plan(budget, lanes);
    if (!optimum) {
      ASSERT_FALSE(result.solution) << "seed " << seed;
      continue;
    }
    ASSERT_LE(result.bound(), *optimum) << "seed " << seed;
    ASSERT_LE(result.peakBound, budget) << "seed " << seed;
    ++checked;
    bounded += result.bound() == *optimum;
    if (!result.solution) {
      worst = 99;
      continue;
    }
    ASSERT_GE(result.time, *optimum) << "seed " << seed;
    const double gap = static_cast<double>(result.time) / static_cast<double>(*optimum) - 1;
    optimal += result.time == *optimum;
    sum += gap;
    worst = std::max(worst, gap);
  }
  EXPECT_GE(checked, static_cast<int>(cases(50u)));
  EXPECT_GT(withState, 2);
  EXPECT_GE(4 * bounded, checked);
  EXPECT_GE(10 * optimal, 9 * checked);
  EXPECT_LT(sum, 0.02 * checked);
  EXPECT_LT(worst, 0.5);
}

} // namespace
} // namespace stow::schedule
