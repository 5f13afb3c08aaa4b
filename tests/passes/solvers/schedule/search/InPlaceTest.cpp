// Problems whose ops overwrite what they read: what every part of the solver makes of them, and
// that none of it is worse than with copies.
#include "Oracle.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/search/Eviction.h"
#include "passes/solvers/schedule/search/MinCutRecompute.h"
#include "passes/solvers/schedule/search/Restore.h"
#include "tests/Cases.h"

#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

PlanOptions withEffort(double effort) {
  PlanOptions options;
  options.effort = effort;
  return options;
}

/// Small steps of every family, and of none.
std::vector<Problem> smallSteps() {
  std::vector<Problem> problems;
  for (auto [family, depth] :
       {std::pair("chain", 8), {"residual", 3}, {"dense", 4}, {"unet", 2}, {"recurrent", 4}})
    problems.push_back(inPlaceStep(family, depth));
  for (uint64_t seed = 1; seed <= 40; ++seed)
    problems.push_back(generateInPlace(seed, 3 + static_cast<int>(seed % 6)));
  return problems;
}

/// The same with a second output of no bytes for every op that overwrites: none runs unasked.
Problem withoutFusing(Problem problem) {
  for (size_t i = 0; i < problem.ops.size(); ++i)
    if (!problem.ops[i].overwrites.empty()) {
      const ValueId mark = problem.addValue("mark", 0);
      problem.ops[i].outputs.push_back(mark);
    }
  return problem;
}

// Tests that ops that run right after what they overwrite cost no schedule: the optimum is that of
// the problem in which they are run one by one.
TEST(InPlaceTest, FusingLosesNothing) {
  int compared = 0, withReruns = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const Problem problem = generateInPlace(seed, 2 + static_cast<int>(seed % 2));
    const Graph graph(problem), single(withoutFusing(problem));
    if (single.ops.size() > 9 || single.values.size() > 13 || graph.ops.size() == single.ops.size())
      continue;
    const Bytes high = measure(graph, graph.inputOrder()).peakBytes;
    EXPECT_EQ(high, measure(single, single.inputOrder()).peakBytes) << "seed " << seed;
    for (Bytes budget : {high - 1, high * 3 / 4}) {
      const std::optional<Cost> optimum = exhaustiveTime(graph, budget);
      EXPECT_EQ(optimum, exhaustiveTime(single, budget)) << "seed " << seed << " at " << budget;
      ++compared;
      withReruns += optimum && *optimum > graph.leastTime;
    }
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(withReruns, 3);
}

// Tests that cuts run a chain again from the last value that is still there, and that evictions do:
// in a residual network nothing else makes room.
TEST(InPlaceTest, CutsAndEvictionsRunChainsAgain) {
  const Problem problem = inPlaceStep("residual", 8);
  const Graph graph(problem);
  const Sequence base = graph.inputOrder();
  const Bytes high = measure(graph, base).peakBytes, budget = high * 6 / 10;
  const std::optional<Sequence> cut = reduceToBudget(graph, base, budget, 60, 0.3);
  ASSERT_TRUE(cut);
  const Replay replay = verify(problem, expand(problem, graph, *cut, budget));
  EXPECT_EQ(replay.fault, std::nullopt);
  EXPECT_LE(replay.peakBytes, budget);
  int fitting = 0;
  for (const EvictionRule &rule : kEvictionRules)
    if (const auto evicted = evictOnDemand(graph, base, budget, rule, 4 * base.size())) {
      const Replay other = verify(problem, expand(problem, graph, *evicted, budget));
      EXPECT_EQ(other.fault, std::nullopt);
      fitting += other.peakBytes <= budget;
    }
  EXPECT_GT(fitting, 3);
}

// Tests that evictions stay legal on random steps, far below the peak.
TEST(InPlaceTest, EvictionsAreLegal) {
  int longer = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const Problem problem = generateInPlace(seed, 2 + static_cast<int>(seed % 8));
    const Graph graph(problem);
    const Sequence base = graph.inputOrder();
    const Bytes target = measure(graph, base).peakBytes * static_cast<Bytes>(50 + seed % 50) / 100;
    const std::optional<Sequence> sequence =
        evictOnDemand(graph, base, target, kEvictionRules[seed % std::size(kEvictionRules)], 500);
    if (!sequence || sequence->size() == base.size())
      continue;
    ++longer;
    ASSERT_EQ(verify(problem, expand(problem, graph, *sequence, target)).fault, std::nullopt)
        << "seed " << seed;
  }
  EXPECT_GT(longer, 300);
}

// Tests schedules of the problem with copies: made legal they replay on the problem itself, and
// those that are legal stay as they are.
TEST(InPlaceTest, RestoresSchedulesOfCopies) {
  int restoredOnes = 0, unchanged = 0;
  for (const Problem &problem : smallSteps()) {
    const Problem copies = withoutOverwrites(problem);
    ASSERT_NO_THROW(check(copies));
    for (const Op &op : copies.ops)
      ASSERT_TRUE(op.overwrites.empty());
    const Graph graph(problem);
    Planner planner(copies, withEffort(0.02));
    for (int percent : {90, 70, 60, 50}) {
      const auto row = planner.schedule(percentOf(planner.inputOrderPeak(), percent));
      if (!row)
        continue;
      const Sequence given = graph.sequenceOf(row->solution);
      const auto restored = restoreOverwritten(graph, given, 4 * given.size());
      ASSERT_TRUE(restored) << problem.name << " at " << percent;
      EXPECT_EQ(verify(problem, expand(problem, graph, *restored, 0)).fault, std::nullopt)
          << problem.name << " at " << percent;
      const bool isLegal = measure(graph, given).legal;
      EXPECT_EQ(*restored == given, isLegal) << problem.name << " at " << percent;
      ++(isLegal ? unchanged : restoredOnes);
    }
  }
  EXPECT_GT(restoredOnes, 8);
  EXPECT_GT(unchanged, 25);
}

// Tests the rule: never worse than the same problem with the overwrites taken away, wherever its
// schedule fits and is legal; and mostly better, since copies take memory.
TEST(InPlaceTest, NeverWorseThanWithCopies) {
  int compared = 0, better = 0, alone = 0;
  for (const Problem &problem : smallSteps()) {
    Planner planner(problem, withEffort(0.05));
    Planner copies(withoutOverwrites(problem), withEffort(0.05));
    for (int percent : test::isNight() ? std::vector{90, 75, 60, 45} : std::vector{75, 45}) {
      const Bytes budget = percentOf(planner.inputOrderPeak(), percent);
      const auto ours = planner.schedule(budget), other = copies.schedule(budget);
      if (ours) {
        const Replay replay = verify(problem, ours->solution);
        ASSERT_EQ(replay.fault, std::nullopt) << problem.name << " at " << percent;
        ASSERT_LE(replay.peakBytes, budget) << problem.name << " at " << percent;
      }
      alone += ours && !other;
      if (!other || verify(problem, other->solution).fault)
        continue;
      ++compared;
      ASSERT_TRUE(ours) << problem.name << " at " << percent;
      EXPECT_LE(ours->time, other->time) << problem.name << " at " << percent;
      better += ours->time < other->time;
    }
  }
  EXPECT_GT(compared, test::isNight() ? 30 : 15);
  EXPECT_GT(better, test::isNight() ? 10 : 5);
  EXPECT_GT(alone, test::isNight() ? 10 : 5);
}

// Tests that a U-shaped network is brought to 30 % of its peak, close to what no schedule goes
// below: in place, and with copies to as many bytes more as they need.
TEST(InPlaceTest, UShapesFitIntoThirtyPercent) {
  const Problem problem = inPlaceStep("unet", 3), copies = withoutOverwrites(problem);
  Planner planner(problem, withEffort(0.2)), other(copies, withEffort(0.2));
  EXPECT_GT(planner.peakBound() * 4, planner.inputOrderPeak()) << "30 % is nothing special";
  EXPECT_TRUE(planner.schedule(percentOf(planner.inputOrderPeak(), 30)));
  EXPECT_TRUE(other.schedule(percentOf(other.inputOrderPeak(), 30)));
}

// Tests that bounds hold for problems with overwrites, against exhaustive search.
TEST(InPlaceTest, AnswersRespectTheOptimum) {
  int optimal = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    const Problem problem = generateInPlace(seed, 2);
    const Graph graph(problem);
    if (!isTiny(graph))
      continue;
    Planner planner(problem, withEffort(0.05));
    for (int percent : {90, 80, 70}) {
      const Bytes budget = percentOf(planner.inputOrderPeak(), percent);
      const PlanResult result = planner.plan(budget);
      const std::optional<Cost> optimum = exhaustiveTime(graph, budget);
      if (!optimum) {
        ASSERT_FALSE(result.solution) << "seed " << seed;
        continue;
      }
      ASSERT_TRUE(result.cutBound) << "seed " << seed;
      ASSERT_LE(result.bound(), *optimum) << "seed " << seed;
      if (result.solution) {
        ASSERT_GE(result.time, *optimum) << "seed " << seed;
        optimal += result.time == *optimum;
      }
    }
  }
  EXPECT_GT(optimal, 80);
}

// Tests that a smaller budget never gives a larger peak nor less time where answers of the problem
// with copies come in.
TEST(InPlaceTest, MonotoneInTheBudget) {
  for (const Problem &problem : {inPlaceStep("residual", 3), inPlaceStep("recurrent", 4)}) {
    std::optional<FrontierRow> larger;
    Planner planner(problem, withEffort(0.05));
    for (double percent = 99.3; percent > 40; percent -= test::isNight() ? 1.9 : 4.3) {
      auto row = planner.schedule(percentOf(planner.inputOrderPeak(), percent));
      if (larger && row) {
        EXPECT_LE(row->peakBytes, larger->peakBytes) << problem.name << " at " << percent;
        EXPECT_GE(row->time, larger->time) << problem.name << " at " << percent;
      }
      larger = std::move(row);
    }
  }
}

// Tests that twice the effort is never worse, with overwrites and without.
TEST(EffortTest, MoreIsNeverWorse) {
  int compared = 0;
  std::vector<double> efforts = {0.3, 0.87};
  if (test::isNight())
    efforts = {1.0, 2.9, 4.0};
  std::vector<Problem> problems = {inPlaceStep("residual", 2)};
  if (test::isNight())
    problems.push_back(generateChainStep(3, 14));
  LayeredOptions layered;
  layered.opCount = 30;
  for (uint64_t seed = 1; seed <= test::cases<uint64_t>(2); ++seed)
    problems.push_back(generateLayered(seed, layered));
  for (const Problem &problem : problems) {
    std::vector<std::optional<FrontierRow>> before;
    for (double effort : efforts) {
      Planner planner(problem, withEffort(effort));
      std::vector<std::optional<FrontierRow>> rows;
      for (int percent : {75, 60})
        rows.push_back(planner.schedule(percentOf(planner.inputOrderPeak(), percent)));
      for (size_t i = 0; i < before.size(); ++i)
        if (before[i]) {
          ASSERT_TRUE(rows[i]) << problem.name << " " << i << " effort " << effort;
          EXPECT_LE(rows[i]->time, before[i]->time) << problem.name << " effort " << effort;
          compared += rows[i]->time > problem.leastTime();
        }
      before = std::move(rows);
    }
  }
  EXPECT_GT(compared, test::isNight() ? 6 : 1);
}

} // namespace
} // namespace stow::schedule
