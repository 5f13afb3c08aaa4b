// Exhaustive search over tiny schedule problems, for tests only.
#pragma once

#include "ir/plan/schedule/Generate.h"
#include "passes/solvers/schedule/Graph.h"
#include "passes/solvers/schedule/bounds/CutBound.h"
#include "tests/Cases.h"

#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <queue>
#include <vector>

namespace stow::schedule {

using test::cases;
using test::isNight;

/// Whether every view in `memory`, a set of values, is beside what it shows. An old copy of that
/// counts as held while a new one is.
inline bool holdsViewed(const Graph &graph, uint32_t memory) {
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (memory >> v & 1)
      for (int32_t viewed : graph.values[v].viewed)
        if (!(memory >> viewed & 1))
          return false;
  return true;
}

/// The least time of any schedule whose peak is at most `budget`, absent if there is none. Dijkstra
/// over states (ops done, values in memory): every step runs one op whose inputs are in memory and
/// then drops any subset, a view no later than what it shows. Exponential: at most about 7 ops and
/// 9 values.
inline std::optional<Cost> exhaustiveTime(const Graph &graph, Bytes budget) {
  const size_t ops = graph.ops.size(), values = graph.values.size();
  using State = uint32_t; // done in the low bits, memory above
  auto bytesOf = [&](uint32_t memory) {
    Bytes sum = graph.baseBytes;
    for (size_t v = 0; v < values; ++v)
      if (memory >> v & 1)
        sum += graph.values[v].sizeBytes;
    return sum;
  };
  uint32_t sources = 0, kept = 0;
  for (size_t v = 0; v < values; ++v) {
    if (!graph.values[v].producer && (graph.values[v].keep || !graph.values[v].readers.empty()))
      sources |= 1u << v;
    if (graph.values[v].keep)
      kept |= 1u << v;
  }
  std::map<State, Cost> best;
  std::priority_queue<std::pair<Cost, State>, std::vector<std::pair<Cost, State>>, std::greater<>>
      queue;
  auto reach = [&](uint32_t done, uint32_t memory, Cost cost) {
    State state = done | memory << ops;
    auto [it, fresh] = best.emplace(state, cost);
    if (!fresh && it->second <= cost)
      return;
    it->second = cost;
    queue.push({cost, state});
  };
  reach(0, sources, 0);
  const uint32_t allDone = (1u << ops) - 1;
  while (!queue.empty()) {
    auto [cost, state] = queue.top();
    queue.pop();
    if (best[state] != cost)
      continue;
    const uint32_t done = state & allDone, memory = state >> ops;
    if (done == allDone && (memory & kept) == kept)
      return cost;
    for (size_t t = 0; t < ops; ++t) {
      const GraphOp &op = graph.ops[t];
      if ((done >> t & 1) && !op.recomputable)
        continue;
      uint32_t inputs = 0, outputs = 0, destroyed = 0;
      for (int32_t v : op.inputs)
        inputs |= 1u << v;
      for (int32_t v : op.outputs)
        outputs |= 1u << v;
      for (const Credit &credit : op.credits)
        if (credit.required)
          destroyed |= 1u << credit.input;
      if ((memory & inputs) != inputs)
        continue;
      const uint32_t others = memory & ~outputs, after = (others | outputs) & ~destroyed;
      const Bytes during = bytesOf(others | outputs) + op.leastWorkspaceBytes;
      for (uint32_t keepSet = after;; keepSet = (keepSet - 1) & after) {
        Bytes credit = 0;
        uint32_t usedIn = 0, usedOut = 0;
        for (const Credit &offer : op.credits) {
          bool dies = !(keepSet >> offer.input & 1);
          bool taken = (usedIn >> offer.input & 1) || (usedOut >> offer.output & 1);
          if (dies && (!taken || offer.required)) {
            credit += offer.bytes;
            usedIn |= 1u << offer.input;
            usedOut |= 1u << offer.output;
          }
        }
        if (during - credit <= budget && holdsViewed(graph, keepSet))
          reach(done | 1u << t, keepSet, cost + op.leastCost);
        if (keepSet == 0)
          break;
      }
    }
  }
  return std::nullopt;
}

/// Small enough for exhaustiveTime.
inline bool isTiny(const Graph &graph) {
  return graph.ops.size() <= 7 && graph.values.size() <= 9 && !graph.ops.empty();
}

/// Calls `test(seed, problem, graph, peak of the input order)` for every generated problem, of seeds
/// 1 to `seeds`, that is tiny; until a fatal failure.
template <typename Test> void forEachTinyProblem(uint64_t seeds, Test test) {
  for (uint64_t seed = 1; seed <= cases(seeds) && !::testing::Test::HasFatalFailure(); ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    if (!isTiny(graph))
      continue;
    graph.useLeanestAlternatives(problem);
    test(seed, problem, graph, measure(graph, graph.inputOrder()).peakBytes);
  }
}

/// How a bound that starts from the cuts of single ops compares with them and with the optimum.
struct AgainstOptimum {
  int checked = 0;
  int better = 0; ///< more than the cuts prove
  int tight = 0;  ///< and equal to the optimum

  /// Checks `boundOf(graph, cuts, budget)` at each of `tenths` of the input order's peak.
  template <typename BoundOf>
  void run(uint64_t seeds, const std::vector<int> &tenths, BoundOf boundOf) {
    forEachTinyProblem(
        seeds, [&](uint64_t seed, const Problem &, const Graph &graph, Bytes inputOrderPeak) {
          for (int part : tenths) {
            const Bytes budget = inputOrderPeak * part / 10;
            CutBound cuts(graph);
            const CutBound::Proof proof = cuts.refine(budget, 10);
            const std::optional<Cost> optimum = exhaustiveTime(graph, budget);
            if (!optimum || !proof.time)
              continue;
            const Cost bound = boundOf(graph, cuts, budget);
            ASSERT_LE(bound, *optimum) << "seed " << seed << " budget " << budget;
            ++checked;
            better += bound > *proof.time;
            tight += bound > *proof.time && bound == *optimum;
          }
        });
  }
};

} // namespace stow::schedule
