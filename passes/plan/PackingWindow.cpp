#include "passes/plan/PackingWindow.h"

#include "ir/plan/schedule/Verify.h"
#include "passes/memory/DescribePlan.h"
#include "passes/solvers/schedule/CutSchedule.h"

#include <set>

namespace stow {

std::vector<size_t> stepsAbove(mlir::ModuleOp placed, Bytes target) {
  std::vector<size_t> steps;
  const Plan plan = describePlan(placed);
  for (const GraphPlan &graph : plan.graphs) {
    if (graph.name != "train")
      continue;
    std::vector<char> above(graph.stepCount, 0);
    for (const PlannedBuffer &buffer : graph.buffers)
      if (buffer.offset + buffer.size > target)
        std::fill(above.begin() + buffer.begin, above.begin() + buffer.end, 1);
    for (size_t step = 0; step < above.size(); ++step)
      if (above[step])
        steps.push_back(step);
  }
  return steps;
}

schedule::Problem withLessRoom(const schedule::Problem &problem, const schedule::Solution &solution,
                               const std::vector<size_t> &steps, Bytes bytes) {
  schedule::Problem tighter = problem;
  std::set<schedule::OpId> ops;
  for (size_t step : steps)
    if (step < solution.runs.size())
      ops.insert(solution.runs[step].op);
  for (schedule::OpId op : ops)
    for (schedule::Alternative &alternative : tighter.ops[op].alternatives)
      alternative.workspaceBytes += bytes;
  return tighter;
}

std::optional<schedule::Solution> reduceTo(const schedule::Problem &problem,
                                           const schedule::Solution &solution, Bytes budget) {
  const schedule::Core core(problem);
  std::vector<int32_t> coreOf(problem.ops.size(), -1);
  for (size_t i = 0; i < core.ops.size(); ++i)
    coreOf[core.ops[i].op] = static_cast<int32_t>(i);
  schedule::Sequence start;
  for (const schedule::Run &run : solution.runs)
    if (coreOf[run.op] >= 0)
      start.push_back(coreOf[run.op]);
  constexpr int kRounds = 20;
  std::optional<schedule::Solution> best;
  std::optional<schedule::Cost> bestTime;
  for (double bias : {0.3, 0.02}) {
    auto reduced = schedule::reduceToBudget(core, start, budget, kRounds, bias);
    if (!reduced)
      continue;
    schedule::Sequence lean = schedule::dropNeedlessReruns(core, std::move(*reduced), budget);
    schedule::Solution candidate = schedule::expand(problem, core, lean, budget);
    schedule::Replay replay = schedule::verify(problem, candidate);
    if (replay.fault || replay.peakBytes > budget || (bestTime && *bestTime <= replay.time))
      continue;
    best = std::move(candidate);
    bestTime = replay.time;
  }
  return best;
}

} // namespace stow
