#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/LowerBound.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/search/Eviction.h"
#include "passes/solvers/schedule/search/LocalSearch.h"
#include "passes/solvers/schedule/search/MinCutRecompute.h"
#include "passes/solvers/schedule/search/OrderSearch.h"
#include "passes/solvers/schedule/search/RerunPlan.h"
#include "passes/solvers/schedule/search/Segments.h"
#include "tests/Cases.h"
#include "tests/passes/solvers/schedule/Concatenated.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <utility>

namespace stow::schedule {
namespace {

// Tests 30,000 random problems: cut schedules replay as legal, within the budget they were made
// for.
TEST(MinCutRecomputeTest, SchedulesAreLegalAndFit) {
  int reduced = 0;
  for (uint64_t seed = 1; seed <= 30000; ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    graph.hasAlternatives = false;
    const Bytes high = measure(graph, graph.inputOrder()).peakBytes;
    const Bytes budget = high * static_cast<Bytes>(50 + seed % 50) / 100;
    std::optional<Sequence> sequence = reduceToBudget(graph, graph.inputOrder(), budget, 20, 0.02);
    if (!sequence)
      continue;
    Sequence lean = dropNeedlessReruns(graph, *sequence, budget);
    ASSERT_LE(lean.size(), sequence->size());
    for (const Sequence &candidate : {*sequence, lean}) {
      Replay replay = verify(problem, expand(problem, graph, candidate, budget));
      ASSERT_EQ(replay.fault, std::nullopt) << "seed " << seed;
      ASSERT_LE(replay.peakBytes, budget) << "seed " << seed;
    }
    reduced += sequence->size() > graph.ops.size();
  }
  EXPECT_GT(reduced, 2000);
}

// Tests that every solver runs the parts of a concatenation again together.
TEST(ConcatenationTest, EverySolverRunsItsPartsAgain) {
  const Problem problem = concatenatedStep();
  const Graph graph(problem);
  const Sequence order = graph.inputOrder();
  constexpr Bytes budget = 12;
  auto expectFits = [&](const Sequence &sequence, Cost most = 2) {
    const Measure now = measure(graph, sequence);
    EXPECT_TRUE(now.legal);
    EXPECT_LE(now.peakBytes, budget);
    EXPECT_LE(now.time, graph.leastTime + most) << testing::PrintToString(sequence);
  };
  const std::optional<Sequence> cut = reduceToBudget(graph, order, budget, 5, 0.3);
  ASSERT_TRUE(cut);
  expectFits(*cut);
  expectFits(dropNeedlessReruns(graph, {0, 1, 2, 3, 1, 2, 4, 1, 2, 5}, budget));
  const std::optional<Sequence> evicted =
      evictOnDemand(graph, order, budget, kEvictionRules[0], 20);
  ASSERT_TRUE(evicted);
  constexpr Cost withStem = 7; // neither looks for what is worth keeping
  expectFits(*evicted, withStem);
  SearchOptions search;
  search.budgetBytes = budget;
  search.moves = 5000;
  expectFits(improve(graph, order, search).sequence);
  expectFits(graph.sequenceOf(planSegments(problem, 0)), withStem);
  // Given back when there is room again.
  search.budgetBytes = 19;
  EXPECT_EQ(improve(graph, *cut, search).measured.time, graph.leastTime);
}

// Tests that a sweep over prices runs more and more again, for less and less memory in the end.
TEST(MinCutRecomputeTest, SweepsTradeTimeForMemory) {
  Problem problem = trainingStep(convolutionalForward("unet", 4));
  Graph graph(problem);
  const Measure start = measure(graph, graph.inputOrder());
  int64_t allowance = 100'000'000;
  const std::vector<SweptCut> cuts =
      sweepPrices(graph, graph.inputOrder(), 40, nullptr, &allowance);
  EXPECT_LT(allowance, 100'000'000);
  ASSERT_GT(cuts.size(), 4u);
  Cost before = start.time;
  for (const SweptCut &cut : cuts) {
    const Measure now = measure(graph, cut.sequence);
    EXPECT_TRUE(now.legal);
    EXPECT_EQ(now.peakBytes, cut.peakBytes);
    EXPECT_EQ(now.time, cut.time);
    EXPECT_GT(cut.time, before);
    before = cut.time;
  }
  EXPECT_LT(cuts.back().peakBytes, start.peakBytes / 4 * 3);
}

// Tests that search never returns anything illegal, nor worse than its start.
TEST(LocalSearchTest, NeverWorseThanItsStart) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    graph.hasAlternatives = false;
    Measure start = measure(graph, graph.inputOrder());
    SearchOptions options;
    options.budgetBytes = start.peakBytes * 7 / 10;
    options.moves = 600;
    options.seed = seed;
    SearchResult result = improve(graph, graph.inputOrder(), options);
    Measure full = measure(graph, result.sequence);
    ASSERT_TRUE(full.legal) << "seed " << seed;
    ASSERT_EQ(full.peakBytes, result.measured.peakBytes) << "seed " << seed;
    ASSERT_EQ(full.time, result.measured.time) << "seed " << seed;
    ASSERT_LE(full.peakBytes, start.peakBytes) << "seed " << seed;
    Replay replay = verify(problem, expand(problem, graph, result.sequence, 0));
    ASSERT_EQ(replay.fault, std::nullopt) << "seed " << seed;
    SearchResult again = improve(graph, graph.inputOrder(), options);
    ASSERT_EQ(again.sequence, result.sequence) << "seed " << seed;
  }
}

// Tests that a window gets the best of all its orders.
TEST(OrderSearchTest, WindowsAreExact) {
  int improved = 0;
  for (uint64_t seed = 1; seed <= 1200; ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    if (graph.ops.size() < 3 || graph.ops.size() > 6)
      continue;
    Sequence order = graph.inputOrder();
    Bytes best = measure(graph, order).peakBytes;
    Sequence permuted = order;
    do {
      bool complete = true; // every read after its producer
      Measure measured = measure(graph, permuted);
      complete &= measured.legal;
      if (complete)
        best = std::min(best, measured.peakBytes);
    } while (std::next_permutation(permuted.begin(), permuted.end()));
    Sequence window = order;
    bool changed = improveWindow(graph, window, 0, window.size());
    Measure measured = measure(graph, window);
    ASSERT_TRUE(measured.legal) << "seed " << seed;
    // Credits that compete for one output are estimated, so that only they may miss the optimum.
    bool competing = false;
    for (const GraphOp &op : graph.ops)
      competing |= op.credits.size() > 1;
    if (!competing)
      ASSERT_EQ(measured.peakBytes, best) << "seed " << seed;
    improved += changed;
  }
  EXPECT_GT(improved, 30);
}

/// Whether search from the input order of a random layered graph gets within a share of its peak.
bool meets(uint64_t seed, int opCount, int percent, SearchOptions options) {
  LayeredOptions layered;
  layered.opCount = opCount;
  const Graph graph(generateLayered(seed, layered));
  options.budgetBytes = measure(graph, graph.inputOrder()).peakBytes * percent / 100;
  return improve(graph, graph.inputOrder(), options).measured.peakBytes <= options.budgetBytes;
}

// Tests that search gets far below the input order's peak: with the maximum in place of the sum
// over all slots it meets half as many of these budgets.
TEST(LocalSearchTest, MeetsBudgetsFarBelowItsStart) {
  int met = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SearchOptions options;
    options.moves = 5000;
    options.seed = seed;
    met += meets(seed, 150, 55, options);
  }
  RecordProperty("met", met);
  EXPECT_GE(met, 14);
}

// Tests that budgets are met for which a few parts of the schedule stay above them for long: these
// must get dearer, reruns must be aimed at them, and inputs chosen by what they need themselves.
TEST(LocalSearchTest, MeetsBudgetsThatResistInAFewPlaces) {
  int met = 0;
  for (auto [seed, percent] : {std::pair(3, 70), {6, 60}, {11, 60}, {5, 60}, {2, 60}})
    for (uint64_t start = 1; start <= (test::isNight() ? 6 : 3); ++start) {
      SearchOptions options;
      options.moves = 40000;
      options.warmth = 0.3;
      options.cooling = 0.1;
      options.seed = start;
      met += meets(static_cast<uint64_t>(seed), 500, percent, options);
    }
  RecordProperty("met", met);
  EXPECT_GE(met, test::isNight() ? 22 : 11);
}

// Tests that runs that stand in each other's way move together: `last` frees `seed` in front of
// `wide` only if `early` goes with it, and each of the two alone, like each op behind the peak,
// would raise the peak by a third.
TEST(LocalSearchTest, MovesRunsTogether) {
  Problem problem;
  auto op = [&](const char *name, Bytes bytes, std::vector<ValueId> inputs, Bytes workspace) {
    const ValueId value = problem.addValue(name, bytes);
    problem.ops[problem.addOp(name, 1, std::move(inputs), {value}, workspace)].recomputable = false;
    return value;
  };
  const ValueId seed = op("seed", 10, {}, 0);
  const ValueId token = op("token", 1, {seed}, 0);
  const ValueId wide = op("wide", 40, {token}, 10);
  const ValueId next = op("next", 1, {wide}, 0);
  const ValueId early = op("early", 30, {seed}, 0);
  const ValueId last = op("last", 1, {seed, early}, 0);
  op("end", 1, {next, last}, 0);
  const Graph graph(problem);
  ASSERT_EQ(measure(graph, graph.inputOrder()).peakBytes, 61);
  SearchOptions options;
  options.budgetBytes = 52;
  options.reruns = false;
  options.warmth = 0.01;
  options.moves = 2000;
  EXPECT_EQ(improve(graph, graph.inputOrder(), options).measured.peakBytes, 52);
}

// Tests that an input whose own inputs are in memory anyway is mostly computed again, and one that
// would need large values kept for it mostly kept.
TEST(RerunPlanTest, ComputesAgainWhatNeedsLittle) {
  Problem problem;
  auto op = [&](const char *name, Bytes bytes, std::vector<ValueId> inputs, Bytes workspace = 0) {
    const ValueId value = problem.addValue(name, bytes);
    problem.addOp(name, 1, std::move(inputs), {value}, workspace);
    return value;
  };
  const ValueId kept = op("kept", 10, {}), gone = op("gone", 100, {});
  const ValueId easy = op("easy", 10, {kept}), hard = op("hard", 10, {gone});
  const ValueId both = op("both", 20, {easy, hard});
  const ValueId peak = op("peak", 1, {}, 1000);
  op("reader", 1, {both, kept, peak});
  const Graph graph(problem);
  const Timeline timeline(graph, graph.inputOrder());
  ASSERT_EQ(timeline.runAt(timeline.peakSlot()), 5);
  const int32_t right = timeline.runsOf(6).front();
  Random random(1);
  RerunPlan plan(graph, timeline, random);
  std::vector<int> runs(graph.ops.size(), 0);
  constexpr int plans = 1000;
  for (int i = 0; i < plans; ++i) {
    ASSERT_TRUE(plan.make(4, timeline.peakSlot(), right, 1e18));
    for (const RerunPlan::Run &run : plan.runs())
      ++runs[run.op];
  }
  EXPECT_EQ(runs[4], plans);
  EXPECT_GT(runs[2], plans * 6 / 10);
  EXPECT_LT(runs[3], plans * 3 / 10);
}

// Tests that a plan costs what its runs cost, changes the bytes at the peak by what it says, and
// is given up as soon as it costs more than it may.
TEST(RerunPlanTest, FiguresAreThoseOfTheSchedule) {
  constexpr double anything = 1e18;
  int chains = 0, lowered = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    LayeredOptions layered;
    layered.opCount = 60;
    const Problem problem = generateLayered(seed, layered);
    const Graph graph(problem);
    const Timeline start(graph, graph.inputOrder());
    const int32_t peak = start.peakSlot();
    std::vector<Bytes> before;
    const Measure old = measure(graph, graph.inputOrder(), &before);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const auto value = static_cast<int32_t>(v);
      const int32_t from = start.servedFrom(value, peak);
      if (from == Timeline::none || start.liveUntil(value, from) <= peak ||
          start.lastReadBefore(value, peak + 1) == peak)
        continue;
      const int32_t next = start.nextReadAfter(value, peak);
      Random random(seed), same(seed);
      RerunPlan plan(graph, start, random), limited(graph, start, same);
      if (next == start.slotCount() || !plan.make(*graph.values[v].producer, peak, next, anything))
        continue;
      Timeline timeline(graph, graph.inputOrder());
      for (size_t i = plan.runs().size(); i-- > 0;)
        timeline.add(plan.runs()[i].op, plan.runs()[i].slot);
      ASSERT_EQ(timeline.violations(), 0);
      std::vector<Bytes> after;
      const Measure now = measure(graph, timeline.sequence(), &after);
      ASSERT_TRUE(now.legal);
      ASSERT_EQ(now.time, old.time + plan.cost());
      ASSERT_EQ(after[old.peakPosition], before[old.peakPosition] + plan.peakBytes());
      chains += plan.runs().size() > 1;
      lowered += plan.peakBytes() < 0;
      refused += !limited.make(*graph.values[v].producer, peak, next,
                               static_cast<double>(plan.cost()) - 0.5);
    }
  }
  EXPECT_GT(chains, 100);
  EXPECT_GT(lowered, 100);
  EXPECT_GT(refused, 200);
}

// Tests that windows lower peaks inside them and never raise the peak of the whole.
TEST(OrderSearchTest, AllWindowsTogetherNeverRaiseThePeak) {
  int lowered = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    LayeredOptions layered;
    layered.opCount = 40;
    const Problem problem = generateLayered(seed, layered);
    const Graph graph(problem);
    SearchOptions options;
    options.budgetBytes = measure(graph, graph.inputOrder()).peakBytes * 8 / 10;
    options.moves = 400;
    const SearchResult start = improve(graph, graph.inputOrder(), options);
    Sequence sequence = start.sequence;
    improveAllWindows(graph, sequence, 8);
    const Measure now = measure(graph, sequence);
    ASSERT_TRUE(now.legal) << "seed " << seed;
    ASSERT_EQ(now.time, start.measured.time) << "seed " << seed;
    ASSERT_LE(now.peakBytes, start.measured.peakBytes) << "seed " << seed;
    lowered += now.peakBytes < start.measured.peakBytes;
  }
  EXPECT_GT(lowered, 50);
}

TEST(OrderSearchTest, OrdersAreLegalAndNeverWorse) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    LayeredOptions layered;
    layered.opCount = 40;
    Problem problem = generateLayered(seed, layered);
    Graph graph(problem);
    OrderOptions options;
    options.moves = 3000;
    Sequence order = searchOrder(graph, graph.inputOrder(), options);
    Measure measured = measure(graph, order);
    ASSERT_EQ(order.size(), graph.ops.size());
    ASSERT_TRUE(measured.legal);
    ASSERT_LE(measured.peakBytes, measure(graph, graph.inputOrder()).peakBytes);
    ASSERT_GE(measured.peakBytes, lowerBoundWithoutRecompute(problem));
  }
}

// Tests Chen's figure: sqrt(n) memory for at most one extra forward pass of a unit chain.
TEST(SegmentsTest, UnitChainsNeedSqrtMemory) {
  for (int length : {25, 100, 400}) {
    const Problem problem = unitChainStep(length);
    const Replay replay = verify(problem, planSegments(problem, 0));
    EXPECT_EQ(replay.fault, std::nullopt);
    EXPECT_LE(replay.peakBytes, static_cast<Bytes>(2.0 * std::sqrt(length) + 4)) << length;
    EXPECT_LE(replay.time, 3 * length) << length;
  }
}

// Tests that segments are no larger than the input order, and that none of their reruns can go
// without a larger peak: by leaving out each of them in turn.
TEST(SegmentsTest, NoRerunIsNeedless) {
  size_t reruns = 0;
  for (const char *name : {"vgg19", "resnet50", "unet", "mobilenet"})
    for (double effort : {0.0, 1.0}) {
      const Problem problem = trainingStep(convolutionalForward(name, 2));
      const Solution segments = planSegments(problem, effort);
      const Replay replay = verify(problem, segments);
      ASSERT_EQ(replay.fault, std::nullopt) << name;
      EXPECT_LE(replay.peakBytes,
                verify(problem, expand(problem, Graph(problem), Graph(problem).inputOrder(), 0))
                    .peakBytes)
          << name;
      std::vector<char> hasRun(problem.ops.size(), 0);
      for (size_t i = 0; i < segments.runs.size(); ++i) {
        if (!std::exchange(hasRun[segments.runs[i].op], 1))
          continue;
        ++reruns;
        Solution without = segments;
        without.runs.erase(without.runs.begin() + static_cast<std::ptrdiff_t>(i));
        const Replay less = verify(problem, without);
        EXPECT_TRUE(less.fault || less.peakBytes > replay.peakBytes) << name << ", run " << i;
      }
    }
  EXPECT_GT(reruns, 100u);
}

} // namespace
} // namespace stow::schedule
