#include "passes/plan/Frontier.h"

#include "passes/plan/TimedPlan.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <limits>
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

Frontier findFrontier(llvm::ArrayRef<FrontierWay> ways, double stepPercent, KeepPlans keep) {
  BudgetPlanner &first = ways.front().planner;
  Frontier frontier;
  frontier.device = ways.front().costs.device;
  frontier.lowerBound = first.lowerBound();
  for (const FrontierWay &way : ways)
    frontier.lowerBound = std::min(frontier.lowerBound, way.planner.lowerBound());
  const Bytes full = first.keepAll().arenaBytes;
  const auto least = static_cast<double>(first.keepAll().time);
  auto boundOf = [&](Bytes budget) {
    schedule::Cost bound = std::numeric_limits<schedule::Cost>::max();
    for (const FrontierWay &way : ways)
      if (way.planner.lowerBound() <= budget)
        bound = std::min(bound, way.planner.timeBound(budget));
    if (!frontier.points.empty()) // what more memory does not allow, less does not either
      bound = std::max(bound, frontier.points.back().bound);
    return bound;
  };
  auto add = [&](Bytes budget, const FrontierWay &way, const StepChoice &choice) {
    const schedule::Cost bound = boundOf(budget);
    FrontierPoint point{budget,
                        choice.arenaBytes,
                        choice.livePeakBytes,
                        choice.time,
                        bound,
                        choice.method + way.suffix,
                        Plan()};
    if (keep == KeepPlans::Yes) {
      point.plan = planOf(*choice.placed, way.costs);
      point.plan.withoutRecomputeBytes = full;
      point.plan.extraTimeBound = percent(static_cast<double>(bound) - least, least) / 100;
      if (!way.note.empty())
        point.plan.notes.push_back(way.note);
    }
    frontier.points.push_back(std::move(point));
  };
  /// True where a way fits.
  auto addWithin = [&](Bytes budget) {
    for (const FrontierWay &way : ways) {
      if (way.planner.lowerBound() > budget)
        continue;
      const std::optional<StepChoice> choice = way.planner.plan(budget);
      if (!choice)
        continue;
      // An earlier budget may have given the same plan.
      if (frontier.points.empty() || frontier.points.back().arenaBytes != choice->arenaBytes)
        add(budget, way, *choice);
      return true;
    }
    return false;
  };
  for (int i = 0; 100 - stepPercent * i > 0; ++i)
    if (!addWithin(schedule::percentOf(full, 100 - stepPercent * i)))
      break;
  for (const FrontierWay &way : ways) {
    const bool isFirst = frontier.points.empty();
    if (!isFirst && way.planner.lowerBound() >= frontier.points.back().arenaBytes)
      continue;
    const Bytes smallest = way.planner.smallest().arenaBytes;
    if (isFirst || smallest < frontier.points.back().arenaBytes)
      addWithin(smallest);
  }
  dropDominated(frontier.points);
  return frontier;
}

} // namespace stow
