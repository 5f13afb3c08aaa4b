#include "passes/plan/Frontier.h"

#include "passes/plan/TimedPlan.h"
#include "runtime/base/LongWork.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <tuple>

namespace stow {
namespace {

/// Without points that another one takes less time than, and no larger arena. Where things are
/// joined and sliced, each order saves copies of its own, so that a plan for less memory may do
/// both.
void dropDominated(std::vector<FrontierPoint> &points) {
  std::sort(points.begin() + 1, points.end(), [](const auto &a, const auto &b) {
    return std::tie(b.arenaBytes, a.time, b.budgetBytes) <
           std::tie(a.arenaBytes, b.time, a.budgetBytes);
  });
  const std::vector<FrontierPoint> all = points;
  const auto isDominated = [&](const FrontierPoint &point) {
    return std::any_of(all.begin(), all.end(), [&](const FrontierPoint &other) {
      return other.arenaBytes <= point.arenaBytes && other.time < point.time;
    });
  };
  points.erase(std::remove_if(points.begin() + 1, points.end(), isDominated), points.end());
  const auto isSame = [](const FrontierPoint &a, const FrontierPoint &b) {
    return a.arenaBytes == b.arenaBytes && a.time == b.time;
  };
  points.erase(std::unique(points.begin() + 1, points.end(), isSame), points.end());
}

} // namespace

double extraPercent(const Frontier &frontier, schedule::Cost time) {
  auto least = static_cast<double>(frontier.points.front().time);
  return percent(static_cast<double>(time) - least, least);
}

Frontier findFrontier(const FrontierStep &step, double stepPercent, KeepPlans keep) {
  Frontier frontier;
  frontier.device = step.costs.device;
  frontier.lowerBound = step.planner.lowerBound();
  const Bytes full = step.planner.keepAll().arenaBytes;
  const auto least = static_cast<double>(step.planner.keepAll().time);
  size_t ofOther = 0; // points of another planner, whose bounds are of another step
  auto add = [&](BudgetPlanner &planner, Bytes budget, const StepChoice &choice) {
    schedule::Cost bound = planner.timeBound(budget);
    if (frontier.points.size() > ofOther) // what more memory does not allow, less does not either
      bound = std::max(bound, frontier.points.back().bound);
    FrontierPoint point{
        budget, choice.arenaBytes, choice.livePeakBytes, choice.time, bound, choice.method, Plan()};
    if (keep == KeepPlans::Yes) {
      point.plan = planOf(*choice.placed, step.costs);
      point.plan.withoutRecomputeBytes = full;
      point.plan.extraTimeBound = percent(static_cast<double>(bound) - least, least) / 100;
      if (!step.note.empty())
        point.plan.notes.push_back(step.note);
    }
    frontier.points.push_back(std::move(point));
  };
  /// True where a plan fits.
  auto addWithin = [&](BudgetPlanner &planner, Bytes budget) {
    const std::optional<StepChoice> choice = planner.plan(budget);
    if (wasInterrupted() && !frontier.points.empty()) // what it gives is no answer
      return false;
    // An earlier budget may have given the same plan.
    if (choice &&
        (frontier.points.empty() || frontier.points.back().arenaBytes != choice->arenaBytes))
      add(planner, budget, *choice);
    return choice.has_value();
  };
  int percents = 0; // steps below all of it
  auto addAll = [&](BudgetPlanner &planner) {
    for (; 100 - stepPercent * percents > 0; ++percents)
      if (!addWithin(planner, schedule::percentOf(full, 100 - stepPercent * percents)))
        break;
    try {
      if (!wasInterrupted())
        addWithin(planner, planner.smallest().arenaBytes);
    } catch (const Interrupted &) {
      acknowledgeInterruption();
    }
  };
  addAll(step.planner);
  if (step.apart && !wasInterrupted()) {
    frontier.lowerBound = std::min(frontier.lowerBound, step.apart->lowerBound());
    ofOther = frontier.points.size();
    addAll(*step.apart);
  }
  frontier.isPartial = wasInterrupted();
  dropDominated(frontier.points);
  return frontier;
}

} // namespace stow
