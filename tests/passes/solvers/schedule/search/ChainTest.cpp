#include "passes/solvers/schedule/search/Chain.h"

#include "Oracle.h"
#include "ir/plan/schedule/Generate.h"
#include "passes/solvers/schedule/PlanSchedule.h"

#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

TEST(ChainTest, RecognisesChainsOnly) {
  EXPECT_TRUE(asChain(Graph(generateChainStep(1, 5))));
  EXPECT_TRUE(asChain(Graph(unitChainStep(1))));
  EXPECT_FALSE(asChain(Graph(trainingStep(generateChainStep(1, 3)))));
  LayeredOptions options;
  options.opCount = 8;
  EXPECT_FALSE(asChain(Graph(generateLayered(3, options))));
}

// Tests that the program equals exhaustive search on all unit chains of up to three steps, for
// every budget, and is never below it on random chains.
TEST(ChainTest, RotorEqualsExhaustiveSearch) {
  int feasible = 0;
  for (int length = 1; length <= 4; ++length)
    for (Bytes budget = 1; budget <= 7; ++budget) {
      Graph graph(unitChainStep(length));
      std::optional<Sequence> sequence = rotorSchedule(graph, *asChain(graph), budget);
      std::optional<Cost> optimum = exhaustiveTime(graph, budget);
      ASSERT_EQ(sequence.has_value(), optimum.has_value()) << length << " " << budget;
      if (sequence)
        ASSERT_EQ(measure(graph, *sequence).time, *optimum) << length << " " << budget;
      feasible += sequence.has_value();
    }
  EXPECT_GT(feasible, 12);
  int equal = 0, total = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Graph graph(generateChainStep(seed, 2 + static_cast<int>(seed % 3)));
    const Bytes high = measure(graph, graph.inputOrder()).peakBytes;
    for (Bytes budget = high / 2; budget <= high; budget += 2) {
      std::optional<Sequence> sequence = rotorSchedule(graph, *asChain(graph), budget);
      std::optional<Cost> optimum = exhaustiveTime(graph, budget);
      if (!sequence)
        continue;
      Measure measured = measure(graph, *sequence);
      ASSERT_TRUE(measured.legal);
      ASSERT_LE(measured.peakBytes, budget);
      ASSERT_TRUE(optimum);
      ASSERT_GE(measured.time, *optimum) << "seed " << seed;
      equal += measured.time == *optimum;
      ++total;
    }
  }
  EXPECT_GT(equal, total * 9 / 10);
}

/// Forward steps that Revolve needs to reverse `length` steps with `snapshots` checkpoints
/// (Griewank and Walther 2000): r * l - C(s + r, s + 1), r the least number with C(s + r, s) >= l.
Cost revolve(int64_t length, int64_t snapshots) {
  auto choose = [](int64_t n, int64_t k) {
    double product = 1;
    for (int64_t i = 1; i <= k; ++i)
      product = product * static_cast<double>(n - k + i) / static_cast<double>(i);
    return static_cast<int64_t>(product + 0.5);
  };
  int64_t r = 0;
  while (choose(snapshots + r, snapshots) < length)
    ++r;
  return r * length - (r ? choose(snapshots + r, snapshots + 1) : 0);
}

// Tests unit chains with free gradients against the closed form. The forward of b_i's input needs a
// place for the step at hand, and the turn runs f_{n-1} once.
TEST(ChainTest, UnitChainsFollowRevolve) {
  for (int length : {2, 3, 5, 9, 16, 30})
    for (int snapshots = 2; snapshots <= 6; ++snapshots) {
      Problem problem = unitChainStep(length);
      for (int i = 0; i < length; ++i) // gradients take no memory here
        problem.storages[problem.values[problem.ops[length + i].outputs[0]].storage].sizeBytes = 0;
      Graph graph(problem);
      // `snapshots` counts the state at hand and the free initial state of Revolve.
      std::optional<Sequence> sequence = rotorSchedule(graph, *asChain(graph), snapshots);
      if (!sequence)
        continue;
      Cost forward = 0;
      for (int32_t op : *sequence)
        forward += op < length;
      EXPECT_LE(revolve(length, snapshots), forward - 1) << length << " " << snapshots;
      EXPECT_GE(revolve(length, snapshots - 1), forward - 1) << length << " " << snapshots;
    }
}

// Tests the planner against the program on chains too long for exhaustive search.
TEST(ChainTest, PlannerIsNotWorseThanRotor) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Problem problem = generateChainStep(seed, 24);
    Graph graph(problem);
    Planner planner(problem);
    for (int percent : {80, 60}) {
      const Bytes budget = percentOf(planner.inputOrderPeak(), percent);
      std::optional<Sequence> rotor = rotorSchedule(graph, *asChain(graph), budget);
      PlanResult result = planner.plan(budget);
      ASSERT_TRUE(rotor);
      ASSERT_TRUE(result.solution) << "seed " << seed << " at " << percent;
      EXPECT_LE(static_cast<double>(result.time),
                1.03 * static_cast<double>(measure(graph, *rotor).time))
          << "seed " << seed << " at " << percent;
    }
  }
}

} // namespace
} // namespace stow::schedule
