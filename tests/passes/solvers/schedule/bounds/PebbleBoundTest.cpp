// Bounds on the peak from the order in which values that meet were written.
#include "Oracle.h"

#include "passes/solvers/schedule/bounds/PebbleBound.h"

#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

/// Two tensors `a` and `b` of 10 bytes meet at `join`. Each is written from a tensor of its own of
/// 6 and 4 bytes, which `start` writes.
Problem meeting() {
  Problem problem;
  const ValueId fromA = problem.addValue("fromA", 6), fromB = problem.addValue("fromB", 4),
                a = problem.addValue("a", 10), b = problem.addValue("b", 10),
                out = problem.addValue("out", 1);
  problem.addOp("start", 1, {}, {fromA, fromB});
  problem.addOp("a", 1, {fromA}, {a});
  problem.addOp("b", 1, {fromB}, {b});
  problem.addOp("join", 1, {a, b}, {out});
  problem.values[out].keep = true;
  return problem;
}

// Tests that what meets costs more than what one op needs: `join` takes 21 bytes, but whoever
// writes the last of its inputs from 4 bytes takes 24.
TEST(PebbleBoundTest, TheLastOneIsWrittenBesideTheOthers) {
  const Problem problem = meeting();
  const Graph graph(problem);
  constexpr int join = 3, enough = 100;
  EXPECT_EQ(pebbleBound(graph, graph.ops[join].inputs, 21, enough), 24);
  EXPECT_EQ(CutBound(graph).peakBound(), 24);
  EXPECT_EQ(exhaustiveTime(graph, 24), 4);
  EXPECT_EQ(exhaustiveTime(graph, 23), std::nullopt);
  // Nothing may be looked at: what is together is there all the same.
  EXPECT_EQ(pebbleBound(graph, graph.ops[join].inputs, 21, 0), 21);
}

// Tests that what is there from the start and read much later is beside what meets.
TEST(PebbleBoundTest, WhatIsReadLaterIsBesideWhatMeets) {
  Problem problem = meeting();
  ValueId last = problem.ops.back().outputs.front();
  for (int i = 0; i < 500; ++i) { // too many to go back from the end
    const ValueId next = problem.addValue("next", 1);
    problem.addOp("next", 1, {last}, {next});
    last = next;
  }
  const ValueId source = problem.addValue("source", 5), end = problem.addValue("end", 0);
  problem.addOp("end", 1, {last, source}, {end});
  EXPECT_EQ(CutBound(Graph(problem)).peakBound(), 29);
}

// Tests that a value may be written over another one only if that is not one of those that meet.
TEST(PebbleBoundTest, WhatMeetsIsNotWrittenOver) {
  for (const bool isRead : {false, true}) {
    Problem problem;
    const ValueId a = problem.addValue("a", 10), b = problem.addValue("b", 10),
                  out = problem.addValue("out", 0);
    problem.addOp("a", 1, {}, {a}, isRead ? 30 : 0); // so that `b` is written last
    const OpId second = problem.addOp("b", 1, {a}, {b});
    problem.ops[second].mayOverwrite.push_back({b, a});
    problem.ops[second].alternatives.front().workspaceBytes = 5;
    std::vector<ValueId> inputs = {b};
    if (isRead)
      inputs.push_back(a);
    problem.addOp("read", 1, inputs, {out});
    const Graph graph(problem);
    const GraphOp &reader = graph.ops.back();
    EXPECT_EQ(pebbleBound(graph, reader.inputs, 0, 100), isRead ? 25 : 15);
  }
}

// Tests that nothing below the bound is feasible, that the bound is often the smallest peak, and
// that it is often more than what every op needs at once.
TEST(PebbleBoundTest, NothingBelowIsFeasible) {
  int better = 0, exact = 0;
  forEachTinyProblem(20000, [&](uint64_t seed, const Problem &, const Graph &graph, Bytes) {
    const CutBound bound(graph);
    const Bytes peak = bound.peakBound();
    ASSERT_EQ(exhaustiveTime(graph, peak - 1), std::nullopt) << "seed " << seed;
    Bytes atOnce = 0; // at the first run of one op
    for (size_t op = 0; op < graph.ops.size(); ++op)
      atOnce = std::max(atOnce, bound.atFirstRun(static_cast<int32_t>(op)));
    better += peak > atOnce;
    exact += peak > atOnce && exhaustiveTime(graph, peak).has_value();
  });
  EXPECT_GT(better, cases(100));
  EXPECT_GT(exact, cases(100));
}

} // namespace
} // namespace stow::schedule
