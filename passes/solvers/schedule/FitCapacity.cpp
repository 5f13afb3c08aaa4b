#include "passes/solvers/schedule/FitCapacity.h"

#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/CutSchedule.h"

namespace stow::schedule {

std::optional<Solution> fitCapacity(const Problem &problem, const Solution &solution,
                                    const Capacity &capacity) {
  check(problem, capacity);
  const Core core(problem);
  // Folded views run right behind the op that they follow.
  std::vector<int32_t> coreOf(problem.ops.size(), -1), nearest(problem.ops.size(), 0);
  for (size_t i = 0; i < core.ops.size(); ++i) {
    coreOf[core.ops[i].op] = nearest[core.ops[i].op] = static_cast<int32_t>(i);
    for (OpId follower : core.ops[i].followers)
      nearest[follower] = static_cast<int32_t>(i);
  }
  Sequence start;
  for (const Run &run : solution.runs)
    if (coreOf[run.op] >= 0)
      start.push_back(coreOf[run.op]);
  std::vector<CoreWindow> windows;
  for (const Window &window : capacity.windows)
    if (!core.ops.empty())
      windows.push_back({nearest[window.first], nearest[window.last], window.withheldBytes});

  constexpr int kRounds = 20;
  std::optional<Solution> best;
  std::optional<Cost> bestTime;
  for (double bias : {0.3, 0.02}) {
    std::optional<Sequence> reduced =
        reduceToBudget(core, start, capacity.budgetBytes, kRounds, bias, nullptr, nullptr, windows);
    if (!reduced)
      continue;
    const Sequence lean = dropNeedlessReruns(core, *reduced, capacity.budgetBytes, windows);
    // An alternative that fits where the least room is fits everywhere.
    Solution candidate = expand(problem, core, lean, capacity.leastBytes());
    const Replay replay = verify(problem, candidate, capacity);
    if (replay.fault || (bestTime && *bestTime <= replay.time))
      continue;
    best = std::move(candidate);
    bestTime = replay.time;
  }
  return best;
}

} // namespace stow::schedule
