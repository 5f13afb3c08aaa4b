#include "passes/solvers/schedule/Descent.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace stow::schedule {

const Point *AnswerBox::choose(const std::vector<const Point *> &pool, Bytes budget) const {
  const Point *best = nullptr;
  for (const Point *point : pool)
    if (point->peak <= budget && point->peak > refused && point->time >= high->time &&
        (!low || (point->time <= low->time && point->peak >= low->peak)) &&
        (!best || std::tie(point->time, point->peak) < std::tie(best->time, best->peak)))
      best = point;
  return best;
}

Descent::Descent(const BudgetGrid &grid, const Point *order, std::vector<const Point *> known)
    : grid(grid), pool(known), box{order}, ownPool(std::move(known)), own{order}, from(grid.lowest),
      to(grid.highest) {}

/// The node that splits the open range: the multiple of 10, else 5, else 1, else a quarter percent
/// that is nearest to a share of the way up, the upper one if two are; absent if the range has no
/// node of at least `finest`. Where reruns explode few nodes are to be solved on the way to the upper part.
std::optional<int> Descent::pivot(int finest) const {
  constexpr double middle = 0.5, nearTheTop = 0.85;
  const double share = grid.explodes && to - from > 40 ? nearTheTop : middle;
  const double aim = from + share * (to - from);
  for (int step : {40, 20, 4, 1}) {
    if (step < finest)
      break;
    std::optional<int> best;
    for (int node = (from / step + 1) * step; node < to; node += step)
      if (!best || std::abs(node - aim) <= std::abs(*best - aim))
        best = node;
    if (best)
      return best;
  }
  return std::nullopt;
}

std::optional<int> Descent::nextNode(int least) {
  if (part == Part::Tree) {
    // What lies below is looked for on the coarse nodes alone, for every budget in the same way.
    if (std::optional<int> node = pivot(isBounded ? least : grid.coarse))
      return node;
    part = isBounded ? Part::Between : Part::Steps;
    if (!isBounded) {
      stride = wentBelow ? grid.coarse : grid.coarse / 2;
      from = grid.lowest;
      box.refused = own.refused = -1;
    }
  }
  if (part == Part::Steps && from == grid.lowest) {
    while (stride / 2 >= grid.shortestStride() && to - stride <= grid.lowest)
      stride /= 2;
    if (to - stride > grid.lowest)
      return to - stride;
  }
  part = Part::Between;
  return pivot(least);
}

bool Descent::shortenStep() {
  if (part != Part::Steps || stride / 2 < grid.shortestStride())
    return false;
  stride /= 2;
  return true;
}

void Descent::goBelow(const Step &step) {
  box.high = step.best;
  if (step.own)
    own.high = step.own;
  to = step.node;
  wentBelow = true;
  if (!step.failures->empty())
    failures = *step.failures;
}

void Descent::goAbove(const Step &step) {
  auto raise = [&](AnswerBox &side, const Point *best) {
    if (best)
      side.low = best;
    else
      side.refused = grid.rung(step.node);
  };
  raise(box, step.best);
  raise(own, step.own);
  isBounded = box.low;
  from = step.node;
  wentBelow = false;
}

} // namespace stow::schedule
