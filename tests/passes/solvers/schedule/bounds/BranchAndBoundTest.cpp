// Branch and bound against the optimum, and on networks.
#include "Oracle.h"

#include "ir/plan/schedule/Generate.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/bounds/BranchAndBound.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace stow::schedule {
namespace {

/// Branches at every op, those of high pressure first.
BranchOptions everyOp(const CutBound &bound) {
  BranchOptions options;
  options.ops = bound.opsByPressure();
  options.allowance = 100000;
  return options;
}

// Tests that the bound never exceeds the optimum, and is often more than the cuts of single ops
// prove.
TEST(BranchAndBoundTest, NeverAboveTheOptimum) {
  AgainstOptimum result;
  result.run(60000, {5, 7, 9}, [](const Graph &graph, const CutBound &cuts, Bytes budget) {
    return branchedTimeBound(graph, cuts, budget, everyOp(cuts));
  });
  EXPECT_GT(result.checked, cases(6000));
  EXPECT_GT(result.better, cases(100));
  EXPECT_GT(result.tight, cases(50));
}

/// The same problem with ops listed in another order, sizes and costs multiplied.
Problem changed(const Problem &problem, uint64_t seed, Bytes sizeFactor, Cost costFactor) {
  Problem result = problem;
  for (Storage &storage : result.storages)
    storage.sizeBytes *= sizeFactor;
  for (Op &op : result.ops)
    for (Alternative &alternative : op.alternatives) {
      alternative.cost *= costFactor;
      alternative.workspaceBytes *= sizeFactor;
    }
  std::mt19937_64 random(seed);
  const std::vector<std::optional<OpId>> producers = problem.producers();
  std::vector<Op> ops;
  std::vector<char> done(problem.ops.size(), 0);
  while (ops.size() < problem.ops.size()) {
    std::vector<size_t> ready;
    for (size_t t = 0; t < problem.ops.size(); ++t) {
      bool isReady = !done[t];
      for (ValueId value : problem.ops[t].inputs)
        isReady &= !producers[value] || done[*producers[value]];
      if (isReady)
        ready.push_back(t);
    }
    const size_t next = ready[random() % ready.size()];
    done[next] = 1;
    ops.push_back(result.ops[next]);
  }
  result.ops = std::move(ops);
  return result;
}

// Tests that the bound holds for problems whose ops are listed in another order and whose numbers
// are large, where products of prices and bytes are rounded, and that it hardly depends on either.
TEST(BranchAndBoundTest, HoldsForOtherListingsAndUnits) {
  constexpr Bytes sizeFactor = 1000003;
  constexpr Cost costFactor = 700001;
  int checked = 0, equal = 0;
  forEachTinyProblem(
      40000, [&](uint64_t seed, const Problem &problem, const Graph &graph, Bytes high) {
        if (std::any_of(problem.ops.begin(), problem.ops.end(),
                        [](const Op &op) { return !op.overwrites.empty(); }))
          return;
        const Bytes budget = high * 7 / 10;
        std::optional<Cost> optimum = exhaustiveTime(graph, budget);
        const CutBound bound(graph);
        if (!optimum)
          return;
        const Problem other = changed(problem, seed, sizeFactor, costFactor);
        Graph otherGraph(other);
        otherGraph.useLeanestAlternatives(other);
        const CutBound otherBound(otherGraph);
        const Cost least = branchedTimeBound(graph, bound, budget, everyOp(bound));
        const Cost otherLeast =
            branchedTimeBound(otherGraph, otherBound, budget * sizeFactor, everyOp(otherBound));
        ASSERT_LE(otherLeast, *optimum * costFactor) << "seed " << seed;
        ++checked;
        equal += otherLeast == least * costFactor;
      });
  EXPECT_GT(checked, cases(500));
  EXPECT_GT(equal, checked * 9 / 10);
}

// Tests that the default bound proves schedules of convolutional networks optimal, where cuts
// alone leave a factor of four.
TEST(BranchAndBoundTest, ProvesConvolutionalNetworks) {
  struct Net {
    const char *name;
    double percent;
  };
  for (const Net &net :
       {Net{"segnet", 70}, Net{"segnet", 60}, Net{"vgg19", 90}, Net{"vgg19", 80}}) {
    Problem problem = trainingStep(convolutionalForward(net.name, 32));
    Planner planner(problem);
    PlanResult result = planner.plan(percentOf(planner.inputOrderPeak(), net.percent));
    EXPECT_EQ(result.status, Status::Optimal) << net.name << " " << net.percent;
    EXPECT_GT(result.time, result.leastTime);
  }
}

} // namespace
} // namespace stow::schedule
