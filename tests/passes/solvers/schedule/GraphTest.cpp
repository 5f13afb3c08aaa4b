#include "passes/solvers/schedule/Graph.h"

#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/LowerBound.h"
#include "ir/plan/schedule/Verify.h"
#include "tests/Cases.h"
#include "tests/passes/solvers/schedule/Concatenated.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace stow::schedule {
namespace {

/// A random legal graph sequence: the input order with reruns of ops whose inputs are available.
Sequence withRandomReruns(const Graph &graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  Sequence sequence;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    while (i > 0 && random() % 3 == 0) {
      int32_t op = static_cast<int32_t>(random() % i);
      if (graph.ops[op].recomputable)
        sequence.push_back(op);
    }
    sequence.push_back(static_cast<int32_t>(i));
  }
  return sequence;
}

/// Whether a view is read, or kept to the end, behind a run that made a new copy of what it views.
bool readsLostView(const Graph &graph, const Sequence &sequence) {
  std::vector<size_t> lastRun(graph.ops.size(), 0); // counted from 1
  auto isLost = [&](int32_t value) {
    return std::ranges::any_of(graph.values[value].viewed, [&](int32_t viewed) {
      return lastRun[*graph.values[viewed].producer] > lastRun[*graph.values[value].producer];
    });
  };
  bool lost = false;
  for (size_t i = 0; i < sequence.size(); ++i) {
    for (int32_t value : graph.ops[sequence[i]].inputs)
      lost |= isLost(value);
    lastRun[sequence[i]] = i + 1;
  }
  for (size_t v = 0; v < graph.values.size(); ++v)
    lost |= graph.values[v].keep && isLost(static_cast<int32_t>(v));
  return lost;
}

// Tests 100,000 random problems with random reruns: the solvers' figures are those of the checker.
// Problems with views that cannot be folded may measure higher than they replay, never lower, and
// solvers do not read such a view in an old copy of what it views, which the checker allows.
TEST(GraphTest, MeasuresWhatTheCheckerCounts) {
  int legal = 0, illegal = 0, equal = 0;
  for (uint64_t seed = 1; seed <= test::cases<uint64_t>(100000); ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    ASSERT_EQ(graph.leastTime, problem.leastTime());
    Sequence sequence = withRandomReruns(graph, seed);
    Measure measured = measure(graph, sequence);
    graph.hasAlternatives = false; // expand must keep the alternatives that `measure` counted
    Replay replay = verify(problem, expand(problem, graph, sequence, 0));
    ASSERT_EQ(replay.fault.has_value() || readsLostView(graph, sequence), !measured.legal)
        << "seed " << seed;
    ++(measured.legal ? legal : illegal);
    if (!measured.legal)
      continue;
    ASSERT_EQ(measured.time, replay.time) << "seed " << seed;
    ASSERT_LE(replay.peakBytes, measured.peakBytes) << "seed " << seed;
    equal += replay.peakBytes == measured.peakBytes;
  }
  EXPECT_GT(legal, test::cases(50000));
  EXPECT_GT(illegal, test::cases(1000));
  EXPECT_GT(equal, legal * 98 / 100);
}

// Tests that free views vanish and come back behind every run of what they show.
TEST(GraphTest, FoldsFreeViews) {
  Problem problem;
  ValueId a = problem.addValue("a", 8),
          view = problem.addValueIn("view", problem.values[a].storage),
          b = problem.addValue("b", 1), c = problem.addValue("c", 1);
  problem.addOp("a", 1, {}, {a});
  problem.addOp("view", 0, {a}, {view});
  problem.addOp("b", 1, {view}, {b});
  problem.addOp("c", 1, {view, b}, {c});
  Graph graph(problem);
  ASSERT_EQ(graph.ops.size(), 3u);
  Solution solution = expand(problem, graph, {0, 1, 0, 2}, 100);
  std::vector<OpId> ops;
  for (const schedule::Run &run : solution.runs)
    ops.push_back(run.op);
  EXPECT_EQ(ops, (std::vector<OpId>{0, 1, 2, 0, 1, 3}));
  EXPECT_EQ(verify(problem, solution).fault, std::nullopt);
}

// Tests that parts of a concatenation that are written where they belong run again together:
// solvers read a part in the latest copy only.
TEST(GraphTest, PartsOfAConcatenationRunAgainTogether) {
  const Problem problem = concatenatedStep();
  Graph graph(problem);
  const int32_t half = graph.ops[1].outputs.front(), full = graph.ops[2].outputs.front();
  EXPECT_EQ(graph.values[half].views, std::vector<int32_t>{full});
  EXPECT_EQ(graph.values[full].viewed, std::vector<int32_t>{half});
  const Measure kept = measure(graph, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(kept.peakBytes, 19);
  const Measure both = measure(graph, {0, 1, 2, 3, 4, 1, 2, 5});
  EXPECT_TRUE(both.legal);
  EXPECT_EQ(both.peakBytes, 12);
  const Sequence alone = {0, 1, 2, 3, 4, 1, 5};
  EXPECT_FALSE(measure(graph, alone).legal);
  EXPECT_EQ(verify(problem, expand(problem, graph, alone, 100)).fault, std::nullopt);
}

// Tests that one op may write the next version of one input and show another: only what it
// overwrites is a storage of its own, so the view adds no bytes.
TEST(GraphTest, OverwritingOneInputMayShowAnother) {
  Problem problem;
  ValueId shown = problem.addValue("shown", 5), old = problem.addValue("old", 6),
          next = problem.addValueIn("next", problem.values[old].storage),
          view = problem.addValueIn("view", problem.values[shown].storage),
          out = problem.addValue("out", 7);
  OpId update = problem.addOp("update", 7, {shown, old}, {next, view});
  problem.ops[update].overwrites = {old};
  problem.addOp("read", 9, {shown, next, view}, {out});
  Graph graph(problem);
  Measure measured = measure(graph, graph.inputOrder());
  EXPECT_TRUE(measured.legal);
  EXPECT_EQ(measured.peakBytes, 5 + 6 + 7);
  EXPECT_EQ(verify(problem, inputOrder(problem)).peakBytes, 5 + 6 + 7);
}

// Tests that each position takes the fastest alternative that fits.
TEST(GraphTest, ExpandsToTheFastestAlternativeThatFits) {
  Problem problem;
  ValueId a = problem.addValue("a", 8), b = problem.addValue("b", 4);
  problem.addOp("a", 5, {}, {a}, 0);
  problem.addOp("b", 5, {a}, {b}, 0);
  problem.ops[1].alternatives = {{9, 0}, {3, 10}, {1, 50}};
  Graph graph(problem);
  EXPECT_EQ(expand(problem, graph, {0, 1}, 100).runs[1].alternative, 2);
  EXPECT_EQ(expand(problem, graph, {0, 1}, 22).runs[1].alternative, 1);
  EXPECT_EQ(expand(problem, graph, {0, 1}, 21).runs[1].alternative, 0);
}

} // namespace
} // namespace stow::schedule
