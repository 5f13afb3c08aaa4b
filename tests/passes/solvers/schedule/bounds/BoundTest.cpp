#include "Oracle.h"

#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/LowerBound.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/bounds/BranchAndBound.h"
#include "passes/solvers/schedule/bounds/CutBound.h"
#include "passes/solvers/schedule/proofs/PhaseProgram.h"
#include "tests/passes/solvers/schedule/Concatenated.h"

#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

// Tests that no bound exceeds the optimum, for budgets from the floor to the input order's peak.
TEST(CutBoundTest, NeverAboveTheOptimum) {
  int positive = 0, tight = 0, infeasible = 0;
  forEachTinyProblem(6000, [&](uint64_t seed, const Problem &, const Graph &graph, Bytes high) {
    CutBound bound(graph);
    for (int part = 3; part <= 10; ++part) {
      const Bytes budget = high * part / 10;
      const std::optional<Cost> least = bound.refine(budget, 10).time;
      std::optional<Cost> optimum = exhaustiveTime(graph, budget);
      if (!least) {
        ASSERT_EQ(optimum, std::nullopt) << "seed " << seed << " budget " << budget;
        ++infeasible;
      }
      if (!optimum)
        continue;
      ASSERT_GE(budget, bound.peakBound()) << "seed " << seed;
      ASSERT_LE(*least, *optimum) << "seed " << seed << " budget " << budget;
      positive += *least > graph.leastTime;
      tight += *least > graph.leastTime && *least == *optimum;
    }
  });
  EXPECT_GT(positive, cases(100));
  EXPECT_GT(tight, cases(50));
  EXPECT_GT(infeasible, cases(1000));
}

// Tests that a cut, branching and a phase program each prove that both parts of a concatenation run
// again.
TEST(CutBoundTest, PartsOfAConcatenationRunAgainTogether) {
  const Problem problem = concatenatedStep();
  const Graph graph(problem);
  constexpr Bytes budget = 12;
  const Cost both = graph.leastTime + 2;
  CutBound bound(graph);
  const CutBound::Proof proof = bound.refine(budget, 10);
  EXPECT_EQ(*proof.time, both);
  BranchOptions branch;
  branch.ops = {*proof.op};
  branch.allowance = 100000;
  EXPECT_EQ(branchedTimeBound(graph, bound, budget, branch), both);
  if (phaseProgramAvailable()) {
    PhaseOptions options;
    options.seconds = 5;
    const std::vector<PhaseEvent> events = phaseChain(graph, *proof.op, 1);
    EXPECT_EQ(*solvePhaseProgram(graph, events, budget, options).bound, both);
  }
}

// Tests that the bound is not trivial on random layered graphs of 100 ops and more, and that it
// never grows with the budget.
TEST(CutBoundTest, PositiveOnLayeredGraphsAndMonotone) {
  for (int count : {100, 250, 500}) {
    LayeredOptions options;
    options.opCount = count;
    int positive = 0;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      Problem problem = generateLayered(seed, options);
      Graph graph(problem);
      const Bytes high = measure(graph, graph.inputOrder()).peakBytes;
      CutBound bound(graph);
      std::optional<Cost> previous;
      for (int percent = 30; percent <= 90; percent += 5) {
        const std::optional<Cost> least = bound.refine(high * percent / 100, 32).time;
        if (!least)
          continue;
        if (previous)
          ASSERT_LE(*least, *previous);
        previous = least;
        positive += percent == 45 && *least > graph.leastTime;
      }
    }
    EXPECT_GE(positive, 1) << count;
  }
}

// Tests that ops whose pressure is within the budget are pruned: they cannot give a bound.
TEST(CutBoundTest, PressurePrunesOps) {
  Problem problem = trainingStep(convolutionalForward("resnet50", 8));
  Graph graph(problem);
  CutBound bound(graph);
  const Bytes high = measure(graph, graph.inputOrder()).peakBytes;
  const Bytes budget = high * 9 / 10;
  int pruned = 0;
  for (int32_t op : bound.opsByPressure())
    pruned += bound.pressure(op) <= budget;
  EXPECT_GT(pruned, static_cast<int>(graph.ops.size()) / 2);
  const Cost few = *bound.refine(budget, 8).time;
  const Cost all = *bound.refine(budget, static_cast<int>(graph.ops.size())).time;
  EXPECT_GE(all, few);
  EXPECT_LE(static_cast<double>(all - few), 0.05 * static_cast<double>(few - graph.leastTime));
}

// Tests that phase programs never exceed the optimum, however they are divided, and that dividing
// proves more.
TEST(PhaseProgramTest, NeverAboveTheOptimum) {
  if (!phaseProgramAvailable())
    GTEST_SKIP() << "built without CBC";
  int checked = 0, tight = 0, tightDivided = 0, divided = 0;
  for (uint64_t seed = 1; seed <= 900 && checked < 150; ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    if (!isTiny(graph) || graph.ops.size() < 4)
      continue;
    graph.useLeanestAlternatives(problem);
    const Bytes high = measure(graph, graph.inputOrder()).peakBytes;
    CutBound bound(graph);
    const Bytes budget = high * 8 / 10;
    std::optional<Cost> optimum = exhaustiveTime(graph, budget);
    PhaseOptions options;
    options.seconds = 5;
    std::vector<PhaseEvent> events = phaseChain(graph, bound.opsByPressure().front(), 24);
    ++checked;
    for (int round = 0; round < 4; ++round) {
      PhaseResult result = solvePhaseProgram(graph, events, budget, options);
      if (result.infeasible) {
        ASSERT_EQ(optimum, std::nullopt) << "seed " << seed << " round " << round;
        break;
      }
      if (optimum) {
        ASSERT_LE(*result.bound, *optimum) << "seed " << seed << " round " << round;
        (round ? tightDivided : tight) += *result.bound == *optimum;
        PhaseOptions known = options;
        known.knownTime = *optimum;
        PhaseResult again = solvePhaseProgram(graph, events, budget, known);
        ASSERT_FALSE(again.infeasible) << "seed " << seed << " round " << round;
        ASSERT_LE(*again.bound, *optimum) << "seed " << seed << " round " << round;
      }
      divided += result.isRefined;
      if (!result.isRefined)
        break;
      events = result.refined;
    }
  }
  EXPECT_GT(checked, 100);
  EXPECT_GT(tight, 10);
  EXPECT_GT(divided, 10);
  EXPECT_GT(tightDivided, 3);
}

// Tests that conditional events at any op of any phase leave the bound valid.
TEST(PhaseProgramTest, AnyConditionalEventsAreValid) {
  if (!phaseProgramAvailable())
    GTEST_SKIP() << "built without CBC";
  int checked = 0;
  for (uint64_t seed = 1; seed <= 6000 && checked < 200; ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    if (!isTiny(graph) || graph.ops.size() < 4)
      continue;
    graph.useLeanestAlternatives(problem);
    const Bytes budget = measure(graph, graph.inputOrder()).peakBytes * 3 / 4;
    std::optional<Cost> optimum = exhaustiveTime(graph, budget);
    if (!optimum)
      continue;
    ++checked;
    CutBound bound(graph);
    std::vector<PhaseEvent> events;
    const size_t count = graph.ops.size();
    for (const PhaseEvent &event : phaseChain(graph, bound.opsByPressure().front(), 3)) {
      for (size_t i = 0; i < 2; ++i)
        events.push_back({static_cast<int32_t>((seed + 3 * events.size()) % count), true});
      events.push_back(event);
    }
    PhaseOptions options;
    options.seconds = 5;
    PhaseResult result = solvePhaseProgram(graph, events, budget, options);
    ASSERT_FALSE(result.infeasible) << "seed " << seed;
    ASSERT_LE(*result.bound, *optimum) << "seed " << seed;
  }
  EXPECT_GT(checked, 100);
}

// Tests that a solver stopped by the clock, however early, proves nothing that is not true.
TEST(PhaseProgramTest, StoppedEarlyProvesNothingFalse) {
  if (!phaseProgramAvailable())
    GTEST_SKIP() << "built without CBC";
  Problem problem = generateLayered(1, {});
  Graph graph(problem);
  CutBound bound(graph);
  const Bytes peak = measure(graph, graph.inputOrder()).peakBytes;
  for (double seconds = 1e-5; seconds < 0.2; seconds *= isNight() ? 1.3 : 2)
    for (int phases : {1, 8}) {
      PhaseOptions options;
      options.seconds = seconds;
      options.knownTime = 2 * graph.leastTime;
      PhaseResult result = solvePhaseProgram(
          graph, phaseChain(graph, bound.opsByPressure().front(), phases), peak, options);
      ASSERT_FALSE(result.infeasible) << seconds;
      ASSERT_EQ(*result.bound, graph.leastTime) << seconds << " s, " << phases << " phases";
    }
}

// Tests that dividing phases closes the gap of a U-Net at half the memory, where whole phases leave
// 0.05 % of the extra time open and their replays need a quarter more than the budget.
TEST(PhaseProgramTest, DividedPhasesProveAUNet) {
  if (!isNight())
    GTEST_SKIP() << "takes long: in the night";
  if (!phaseProgramAvailable())
    GTEST_SKIP() << "built without CBC";
  Problem problem = trainingStep(convolutionalForward("unet", 2));
  PlanOptions options;
  options.prove = true;
  Planner planner(problem, options);
  PlanResult result = planner.plan(percentOf(planner.inputOrderPeak(), 50));
  EXPECT_EQ(result.status, Status::Optimal);
  EXPECT_LT(result.time - result.leastTime, result.leastTime * 183 / 1000);
}

TEST(PhaseProgramTest, ChainsAreAncestorsOfEachOther) {
  Problem problem = trainingStep(convolutionalForward("unet", 2));
  Graph graph(problem);
  std::vector<PhaseEvent> chain = phaseChain(graph, 20, 12);
  ASSERT_EQ(chain.size(), 12u);
  EXPECT_EQ(chain.front().op, 20);
  for (size_t k = 1; k < chain.size(); ++k)
    EXPECT_GT(chain[k].op, chain[k - 1].op);
}

} // namespace
} // namespace stow::schedule
