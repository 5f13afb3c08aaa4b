#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/bounds/CutBound.h"
#include "passes/solvers/schedule/search/BudgetSolver.h"

#include "Oracle.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/bounds/CutBound.h"
#include "passes/solvers/schedule/proofs/PhaseProgram.h"
#include "passes/solvers/schedule/search/BudgetSolver.h"
#include "passes/solvers/schedule/search/LocalSearch.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>

namespace stow::schedule {
namespace {

PlanOptions quick() {
  PlanOptions options;
  options.effort = 0.02;
  return options;
}

// Tests random problems at random budgets: what comes back replays as stated, fits, and respects
// every bound; against exhaustive search where the problem is tiny.
TEST(PlanScheduleTest, AnswersAreLegalBoundedAndConsistent) {
  int planned = 0, compared = 0, equal = 0;
  for (uint64_t seed = 1; seed <= cases<uint64_t>(3000); ++seed) {
    Problem problem = generate(seed);
    Planner planner(problem, quick());
    const Bytes budget = percentOf(planner.inputOrderPeak(), 45 + static_cast<double>(seed % 56));
    PlanResult result = planner.plan(budget);
    if (result.solution) {
      Replay replay = verify(problem, *result.solution);
      ASSERT_EQ(replay.fault, std::nullopt) << "seed " << seed;
      ASSERT_EQ(replay.time, result.time) << "seed " << seed;
      ASSERT_EQ(replay.peakBytes, result.peakBytes) << "seed " << seed;
      ASSERT_LE(result.peakBytes, budget) << "seed " << seed;
      ASSERT_TRUE(result.cutBound) << "seed " << seed;
      ASSERT_GE(result.time, *result.cutBound) << "seed " << seed;
      ASSERT_GE(result.peakBytes, result.peakBound) << "seed " << seed;
      ASSERT_EQ(result.status == Status::Optimal, result.time == *result.cutBound);
      ++planned;
    } else {
      ASSERT_LT(budget, result.smallestPeak) << "a feasible budget was refused, seed " << seed;
      ASSERT_GE(result.smallestPeak, result.peakBound) << "seed " << seed;
    }
    Graph graph(problem);
    if (!isTiny(graph) || graph.hasAlternatives)
      continue;
    std::optional<Cost> optimum = exhaustiveTime(graph, budget);
    if (result.status == Status::Infeasible)
      ASSERT_EQ(optimum, std::nullopt) << "seed " << seed;
    if (!optimum) {
      ASSERT_FALSE(result.solution) << "seed " << seed;
      continue;
    }
    ++compared;
    if (!result.solution)
      continue;
    ASSERT_GE(result.time, *optimum) << "seed " << seed;
    if (result.status == Status::Optimal)
      ASSERT_EQ(result.time, *optimum) << "seed " << seed;
    equal += result.time == *optimum;
  }
  EXPECT_GT(planned, cases(800));
  EXPECT_GT(compared, cases(150));
  EXPECT_GE(equal, compared * 93 / 100) << "of " << compared;
}

// Tests the promise of the tree: a smaller budget never gives a larger peak nor less time, and
// refuses nothing above the smallest peak known. Fresh planners and one planner agree.
TEST(PlanScheduleTest, MonotoneInTheBudget) {
  std::vector<Problem> problems = {trainingStep(convolutionalForward("unet", 2)),
                                   trainingStep(convolutionalForward("vgg19", 2)),
                                   generateChainStep(4, 12), gptStep(2)};
  for (uint64_t seed = 1; seed <= cases<uint64_t>(12); ++seed)
    problems.push_back(generate(seed));
  for (const Problem &problem : problems) {
    Planner planner(problem, quick());
    std::optional<PlanResult> larger;
    for (int percent = 104; percent >= 30; percent -= isNight() ? 2 : 12) {
      const Bytes budget = percentOf(planner.inputOrderPeak(), percent + 0.3);
      PlanResult result = planSchedule(problem, budget, quick());
      if (larger && result.solution) {
        ASSERT_TRUE(larger->solution) << problem.name << " at " << percent;
        ASSERT_LE(result.peakBytes, larger->peakBytes) << problem.name << " at " << percent;
        ASSERT_GE(result.time, larger->time) << problem.name << " at " << percent;
      }
      PlanResult shared = planner.plan(budget);
      ASSERT_EQ(shared.solution, result.solution) << problem.name << " at " << percent;
      larger = std::move(result);
    }
  }
}

// Tests the same promise where nodes are coarse and searches short, and that answers do not depend
// on what was asked before: budgets in two orders, and after the frontier.
TEST(PlanScheduleTest, LargeProblemsAreMonotoneInAnyOrderOfQuestions) {
  LayeredOptions layered;
  layered.opCount = 420;
  std::vector<Problem> problems = {generateLayered(3, layered)};
  if (isNight())
    problems.push_back(gptStep(52));
  for (const Problem &problem : problems) {
    Planner down(problem, quick()), up(problem, quick());
    up.frontier();
    std::vector<Bytes> budgets;
    for (double percent = 99; percent > 33; percent -= isNight() ? 10.7 : 32.1)
      budgets.push_back(percentOf(down.inputOrderPeak(), percent));
    std::vector<PlanResult> falling, rising;
    for (Bytes budget : budgets)
      falling.push_back(down.plan(budget));
    for (size_t i = budgets.size(); i-- > 0;)
      rising.insert(rising.begin(), up.plan(budgets[i]));
    Bytes smallest = std::numeric_limits<Bytes>::max();
    for (const PlanResult &result : falling)
      if (result.solution)
        smallest = std::min(smallest, result.peakBytes);
    for (size_t i = 0; i < budgets.size(); ++i) {
      const PlanResult &result = falling[i];
      ASSERT_EQ(result.solution, rising[i].solution) << problem.name << " " << i;
      ASSERT_EQ(result.status, rising[i].status) << problem.name << " " << i;
      ASSERT_EQ(result.bound(), rising[i].bound()) << problem.name << " " << i;
      ASSERT_EQ(result.smallestPeak, rising[i].smallestPeak) << problem.name << " " << i;
      ASSERT_EQ(result.solution.has_value(), budgets[i] >= smallest) << problem.name << " " << i;
      if (i > 0 && result.solution) {
        ASSERT_GE(result.time, falling[i - 1].time) << problem.name << " " << i;
        ASSERT_LE(result.peakBytes, falling[i - 1].peakBytes) << problem.name << " " << i;
      }
    }
  }
}

// Tests that a refused budget is below every peak that is answered or offered, at budgets of nodes
// Tests that every refused budget, proven infeasible or not, is told the same smallest peak, and
// that this peak can be had. (Where reruns explode it is looked for in whole tens only, and asking
// for it may lead to less.)
TEST(PlanScheduleTest, NamesOneSmallestPeakThatItPlans) {
  LayeredOptions layered;
  layered.opCount = 60;
  for (const Problem &problem :
       {generateLayered(8, layered), trainingStep(convolutionalForward("vgg19", 8))}) {
    std::optional<Bytes> smallest;
    for (double percent : {1, 20, 40, 41, 42}) {
      Planner planner(problem, quick());
      const PlanResult refused = planner.plan(percentOf(planner.inputOrderPeak(), percent));
      ASSERT_FALSE(refused.solution) << problem.name << " " << percent;
      if (smallest)
        EXPECT_EQ(refused.smallestPeak, *smallest) << problem.name << " " << percent;
      smallest = refused.smallestPeak;
      const PlanResult planned = planner.plan(*smallest);
      ASSERT_TRUE(planned.solution) << problem.name << " " << percent;
      EXPECT_LE(planned.peakBytes, *smallest) << problem.name << " " << percent;
    }
  }
}

// Tests that graphs whose reruns explode are told from networks, however many values ops read.
TEST(PlanScheduleTest, SweepTellsWhetherRerunsExplode) {
  auto explodes = [](const Problem &problem) {
    Graph graph(problem);
    const PlanOptions options;
    BudgetSolver solver(problem, graph, options, Effort(graph.ops.size(), options.effort));
    solver.addBase(graph.inputOrder());
    solver.sweep(CutBound(graph).peakBound());
    return solver.hasExplodingReruns();
  };
  LayeredOptions layered;
  layered.opCount = 250;
  EXPECT_TRUE(explodes(generateLayered(1, layered)));
  layered.edgeDensity /= 3;
  EXPECT_TRUE(explodes(generateLayered(2, layered)));
  for (const char *name : {"resnet50", "unet", "mobilenet"})
    EXPECT_FALSE(explodes(trainingStep(convolutionalForward(name, 8)))) << name;
}

// and between them.
TEST(PlanScheduleTest, RefusesNothingAboveAnAnswer) {
  int refused = 0;
  auto test = [&](int ops, uint64_t seed, double from, double to, double step) {
    LayeredOptions layered;
    layered.opCount = ops;
    Planner planner(generateLayered(seed, layered), quick());
    std::vector<PlanResult> results;
    Bytes smallest = std::numeric_limits<Bytes>::max();
    for (double percent = from; percent >= to; percent -= step) {
      results.push_back(planner.plan(percentOf(planner.inputOrderPeak(), percent)));
      if (results.back().solution)
        smallest = std::min(smallest, results.back().peakBytes);
    }
    for (const PlanResult &result : results) {
      if (result.solution)
        continue;
      ++refused;
      ASSERT_LT(result.budgetBytes, smallest) << ops << " ops, seed " << seed;
      ASSERT_GT(result.smallestPeak, result.budgetBytes) << ops << " ops, seed " << seed;
    }
  };
  test(420, 1, 72, 52, isNight() ? 1 : 4);
  if (isNight())
    test(420, 2, 72, 52, 1);
  for (uint64_t seed : {2, 3, 8})
    test(60, seed, 60, 42, isNight() ? 0.25 : 1);
  EXPECT_GT(refused, cases(20));
}

// Tests that no budget is answered by a schedule for more memory just because that fits: at every
// budget the answer is at least as good as one plain search of the same length.
TEST(PlanScheduleTest, NotWorseThanOneSearchAtTheBudget) {
  PlanOptions options;
  options.effort = 0.2;
  for (const char *name : {"vgg19", "unet", "segnet"}) {
    Problem problem = trainingStep(convolutionalForward(name, 4));
    Graph graph(problem);
    Planner planner(problem, options);
    for (int percent : {90, 85, 80, 70}) {
      SearchOptions search;
      search.budgetBytes = percentOf(planner.inputOrderPeak(), percent);
      search.moves = 10000;
      search.cooling = 1e-3;
      SearchResult plain = improve(graph, graph.inputOrder(), search);
      PlanResult result = planner.plan(search.budgetBytes);
      if (plain.measured.peakBytes > search.budgetBytes)
        continue;
      ASSERT_TRUE(result.solution) << name << " at " << percent;
      EXPECT_LE(result.time, plain.measured.time) << name << " at " << percent;
    }
  }
}

// Tests that sizes times k give the same schedule at k times the budget, and costs times k too.
TEST(PlanScheduleTest, ScalesWithSizesAndCosts) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Problem problem = generate(seed);
    // Multiples of 100, so that percentages of the peak are whole bytes.
    for (Storage &storage : problem.storages)
      storage.sizeBytes *= 100;
    for (Op &op : problem.ops)
      for (Alternative &alternative : op.alternatives)
        alternative.workspaceBytes *= 100;
    Problem scaled = problem;
    for (Storage &storage : scaled.storages)
      storage.sizeBytes *= 8;
    for (Op &op : scaled.ops)
      for (Alternative &alternative : op.alternatives) {
        alternative.workspaceBytes *= 8;
        alternative.cost *= 4;
      }
    Planner planner(problem, quick()), other(scaled, quick());
    ASSERT_EQ(other.inputOrderPeak(), 8 * planner.inputOrderPeak());
    const Bytes budget = percentOf(planner.inputOrderPeak(), 80);
    PlanResult a = planner.plan(budget), b = other.plan(8 * budget);
    ASSERT_EQ(a.solution.has_value(), b.solution.has_value()) << "seed " << seed;
    if (a.solution) {
      EXPECT_EQ(8 * a.peakBytes, b.peakBytes) << "seed " << seed;
      EXPECT_EQ(4 * a.time, b.time) << "seed " << seed;
    }
  }
}

// Tests that renaming values and storages changes nothing but the names.
TEST(PlanScheduleTest, IndependentOfValueNumbers) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Problem problem = generate(seed);
    Problem permuted = problem;
    const ValueId count = static_cast<ValueId>(problem.values.size());
    auto renumber = [&](ValueId v) { return count - 1 - v; };
    std::reverse(permuted.values.begin(), permuted.values.end());
    for (Op &op : permuted.ops) {
      for (std::vector<ValueId> *list : {&op.inputs, &op.outputs, &op.overwrites})
        for (ValueId &value : *list)
          value = renumber(value);
      for (OverwriteOption &option : op.mayOverwrite)
        option = {renumber(option.output), renumber(option.input)};
    }
    PlanOptions cutsOnly;
    cutsOnly.effort = 0;
    Planner planner(problem, cutsOnly), other(permuted, cutsOnly);
    ASSERT_EQ(planner.inputOrderPeak(), other.inputOrderPeak()) << "seed " << seed;
    const Bytes budget = percentOf(planner.inputOrderPeak(), 80);
    PlanResult a = planner.plan(budget), b = other.plan(budget);
    EXPECT_EQ(a.cutBound, b.cutBound) << "seed " << seed;
    EXPECT_EQ(a.solution.has_value(), b.solution.has_value()) << "seed " << seed;
  }
}

// Tests that deep budgets of large random graphs are met: searches start from the schedule of the
// next larger budget.
TEST(PlanScheduleTest, LargeRandomGraphsFitIntoSixtyPercent) {
  struct Case {
    int ops;
    uint64_t seed;
    double percent;
  };
  std::vector<Case> rows = {{500, 3, 70}, {500, 6, 60}};
  if (isNight())
    rows.insert(rows.end(), {{1000, 1, 60}, {1000, 12, 60}, {500, 12, 60}});
  for (auto [ops, seed, percent] : rows) {
    LayeredOptions layered;
    layered.opCount = ops;
    Planner planner(generateLayered(seed, layered));
    const std::optional<FrontierRow> row =
        planner.schedule(percentOf(planner.inputOrderPeak(), percent));
    EXPECT_TRUE(row) << ops << " ops, seed " << seed;
  }
}

// Tests that nodes that a bound decides are not solved: with all of memory the input order is
// optimal, and nothing is searched; nor is any node searched twice.
TEST(PlanScheduleTest, BoundsPruneTheTree) {
  Problem problem = trainingStep(convolutionalForward("resnet50", 8));
  int polls = 0;
  PlanOptions options;
  options.cancelled = [&] {
    ++polls;
    return false;
  };
  Planner planner(problem, options);
  PlanResult result = planner.plan(planner.inputOrderPeak());
  EXPECT_EQ(result.status, Status::Optimal);
  EXPECT_EQ(result.time, result.leastTime);
  EXPECT_LT(polls, 4) << "a search ran although the bound was met";
  planner.plan(percentOf(planner.inputOrderPeak(), 80));
  const int searched = polls;
  EXPECT_GT(searched, 100);
  planner.plan(percentOf(planner.inputOrderPeak(), 80));
  EXPECT_EQ(polls, searched) << "a node was solved twice";
}

/// What a planner of `problem` is asked for, counted in polls: one for every attempt, and for every so many moves.
template <typename Ask> int64_t pollsFor(const Problem &problem, Ask ask) {
  int64_t polls = 0;
  PlanOptions options;
  options.cancelled = [&] {
    ++polls;
    return false;
  };
  Planner planner(problem, options);
  ask(planner);
  return polls;
}

// Tests that nodes that a bound says take too long are passed by: a budget that costs little is not planned on the way
// from budgets that cost much. What comes is a schedule like any other.
TEST(PlanScheduleTest, PassesBudgetsByThatTakeTooLong) {
  const Problem problem = trainingStep(convolutionalForward("resnet50", 8));
  Planner bounds(problem);
  const Bytes peak = bounds.inputOrderPeak();
  const Cost most = bounds.timeBound(percentOf(peak, 90));
  ASSERT_TRUE(bounds.takesLonger(percentOf(peak, 80), most));
  const auto ask = [&](Cost limit) {
    return pollsFor(problem, [&](Planner &planner) {
      const Bytes budget = percentOf(peak, 98);
      const std::optional<FrontierRow> row = planner.schedule(budget, limit);
      ASSERT_TRUE(row);
      EXPECT_EQ(verify(problem, row->solution).fault, std::nullopt);
      EXPECT_LE(row->peakBytes, budget);
      EXPECT_LE(row->time, most);
    });
  };
  const int64_t all = ask(kAnyTime), some = ask(most);
  EXPECT_GT(some, 50);
  EXPECT_LT(some, all / 2) << "what takes too long was searched";
}

// Tests that the work for a budget, counted and not timed, grows no faster than the problem.
TEST(PlanScheduleTest, WorkGrowsNoFasterThanTheProblem) {
  for (double percent : {95.0, 70.0}) {
    std::vector<double> perOp;
    for (int length : {250, 1000}) {
      const Problem problem = generateChainStep(1, length);
      const int64_t polls = pollsFor(problem, [&](Planner &planner) {
        EXPECT_TRUE(planner.schedule(percentOf(planner.inputOrderPeak(), percent)));
      });
      perOp.push_back(static_cast<double>(polls) / static_cast<double>(problem.ops.size()));
    }
    EXPECT_GT(perOp[0], 0.1);
    EXPECT_LE(perOp[1], perOp[0]) << percent;
  }
}

// Tests that phase programs, which raise the printed bound only, wait for --prove.
TEST(PlanScheduleTest, PhaseProgramsOnlyToProve) {
  const Problem problem = trainingStep(convolutionalForward("unet", 2));
  for (bool prove : {false, true}) {
    PlanOptions options = quick();
    options.prove = prove;
    options.proveSeconds = 0.5;
    Planner planner(problem, options);
    const PlanResult result = planner.plan(percentOf(planner.inputOrderPeak(), 60));
    ASSERT_TRUE(result.solution);
    ASSERT_LT(*result.cutBound, result.time) << "nothing is open";
    EXPECT_EQ(result.phaseBound.has_value(), prove && phaseProgramAvailable());
  }
}

TEST(PlanScheduleTest, InfeasibleBudgetsComeWithTheirProof) {
  Problem problem = trainingStep(convolutionalForward("vgg19", 4));
  Planner planner(problem, quick());
  PlanResult result = planner.plan(planner.inputOrderPeak() / 4);
  EXPECT_EQ(result.status, Status::Infeasible);
  EXPECT_EQ(result.solution, std::nullopt);
  EXPECT_GT(result.peakBound, planner.inputOrderPeak() / 4);
  EXPECT_GE(result.smallestPeak, result.peakBound);
  ASSERT_TRUE(result.smallestPeakSolution);
  EXPECT_EQ(verify(problem, *result.smallestPeakSolution).peakBytes, result.smallestPeak);
}

// Tests that updates of pinned weights run once, after every reader of the old weights.
TEST(PlanScheduleTest, UpdatesRunOnceAfterAllReaders) {
  Problem problem = gptStep(12);
  Planner planner(problem, quick());
  PlanResult result = planner.plan(percentOf(planner.inputOrderPeak(), 75));
  ASSERT_TRUE(result.solution);
  EXPECT_EQ(verify(problem, *result.solution).fault, std::nullopt);
  EXPECT_GT(result.solution->runs.size(), problem.ops.size());
}

TEST(PlanScheduleTest, CancelsAndRejects) {
  PlanOptions options;
  options.cancelled = [] { return true; };
  Problem problem = trainingStep(convolutionalForward("unet", 2));
  PlanResult result = planSchedule(problem, 1000, options);
  EXPECT_EQ(result.solution, std::nullopt);
  problem.ops[0].alternatives.clear();
  EXPECT_THROW(Planner planner(problem), Error);
}

TEST(PlanScheduleTest, EmptyProblem) {
  PlanResult result = planSchedule(Problem(), 0);
  EXPECT_EQ(result.status, Status::Optimal);
  ASSERT_TRUE(result.solution);
  EXPECT_TRUE(result.solution->runs.empty());
}

TEST(PlanScheduleTest, PercentagesRoundUp) {
  EXPECT_EQ(percentOf(13484795520, 70), 9439356864);
  EXPECT_EQ(percentOf(15825108992, 85), 13451342644);
  EXPECT_EQ(percentOf(200, 50), 100);
  EXPECT_EQ(percentOf(201, 50), 101);
}

// Tests that cuts at all prices are a frontier of legal schedules, from the orders down.
TEST(PlannerTest, CutsAreAFrontierWithoutSearch) {
  const Problem problem = trainingStep(convolutionalForward("vgg19", 2));
  Planner planner(problem);
  const std::vector<FrontierRow> rows = planner.cuts();
  ASSERT_GT(rows.size(), 3u);
  EXPECT_EQ(rows.front().time, problem.leastTime());
  EXPECT_LE(rows.front().peakBytes, planner.inputOrderPeak());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Replay replay = verify(problem, rows[i].solution);
    ASSERT_EQ(replay.fault, std::nullopt);
    EXPECT_EQ(replay.peakBytes, rows[i].peakBytes);
    EXPECT_EQ(replay.time, rows[i].time);
    if (i > 0) {
      EXPECT_LT(rows[i].peakBytes, rows[i - 1].peakBytes);
      EXPECT_GT(rows[i].time, rows[i - 1].time);
    }
  }
}

} // namespace
} // namespace stow::schedule
