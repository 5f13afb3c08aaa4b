#include "passes/solvers/schedule/search/FitCapacity.h"

#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/search/MinCutRecompute.h"

namespace stow::schedule {

std::optional<Solution> fitCapacity(const Problem &problem, const Solution &solution,
                                    const Capacity &capacity) {
  check(problem, capacity);
  const Graph graph(problem);
  // Folded views run right behind the op that they follow.
  std::vector<int32_t> graphOpOf(problem.ops.size(), -1), nearest(problem.ops.size(), 0);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    graphOpOf[graph.ops[i].op] = nearest[graph.ops[i].op] = static_cast<int32_t>(i);
    for (OpId follower : graph.ops[i].followers)
      nearest[follower] = static_cast<int32_t>(i);
  }
  Sequence start;
  for (const Run &run : solution.runs)
    if (graphOpOf[run.op] >= 0)
      start.push_back(graphOpOf[run.op]);
  std::vector<GraphWindow> windows;
  for (const Window &window : capacity.windows)
    if (!graph.ops.empty())
      windows.push_back({nearest[window.first], nearest[window.last], window.withheldBytes});

  constexpr int kRounds = 20;
  std::optional<Solution> best;
  std::optional<Cost> bestTime;
  for (double bias : {kUsualBias, kLowBias}) {
    std::optional<Sequence> reduced = reduceToBudget(graph, start, capacity.budgetBytes, kRounds,
                                                     bias, nullptr, nullptr, windows);
    if (!reduced)
      continue;
    const Sequence lean = dropNeedlessReruns(graph, *reduced, capacity.budgetBytes, windows);
    // An alternative that fits where the least room is fits everywhere.
    Solution candidate = expand(problem, graph, lean, capacity.leastBytes());
    const Replay replay = verify(problem, candidate, capacity);
    if (replay.fault || (bestTime && *bestTime <= replay.time))
      continue;
    best = std::move(candidate);
    bestTime = replay.time;
  }
  return best;
}

} // namespace stow::schedule
