#include "passes/plan/Ladder.h"

#include "runtime/base/Bytes.h"
#include "runtime/base/LongWork.h"

#include <algorithm>
#include <utility>

namespace stow {

Bytes Ladder::budgetOf(int rung) const {
  return schedule::percentOf(planner.inputOrderPeak(), 100.0 * (size - rung) / size);
}

const std::optional<schedule::FrontierRow> &Ladder::at(int rung) {
  auto [found, isNew] = known.try_emplace(rung);
  if (isNew) {
    noteTry("a schedule within " + formatBytes(budgetOf(rung)));
    found->second = planner.schedule(budgetOf(rung), most);
  }
  return found->second;
}

bool Ladder::mayBeWorth(const Wanted &wanted) {
  for (int rung = wanted.from + wanted.step; rung < size; rung += wanted.step) {
    const Bytes budget = budgetOf(rung);
    if (planner.takesLonger(budget, wanted.time))
      return false;
    if (!planner.takesLonger(budget, std::min(wanted.time, wanted.timeOfNoWorth(budget))))
      return true;
  }
  return false;
}

int Ladder::bestWithin(const Wanted &wanted) {
  if (!mayBeWorth(wanted))
    return -1;
  int low = wanted.from, best = -1, tooFar = size;
  double most = 0;
  const auto look = [&](int rung) { // true where it is the best one so far
    if (planner.takesLonger(budgetOf(rung), wanted.time)) {
      tooFar = rung; // as its schedule would say, after a long search
      return false;
    }
    const auto &row = at(rung);
    const bool isInTime = row && row->time <= wanted.time;
    const auto rank = [&](double worth, schedule::Cost time) { return std::pair(worth, -time); };
    const auto found =
        isInTime ? rank(wanted.worth(row->time, row->peakBytes), row->time) : rank(0, 0);
    const auto before = best < 0 ? rank(0, 0) : rank(most, at(best)->time);
    (isInTime && (best < 0 || found >= before) ? low : tooFar) = rung;
    if (!isInTime || found <= before)
      return false;
    best = rung;
    most = found.first;
    return true;
  };
  for (int step = wanted.step; wanted.from + step < tooFar; step *= 2)
    look(wanted.from + step);
  while (low + wanted.step < tooFar)
    look(low + (tooFar - low) / wanted.step / 2 * wanted.step);
  for (int step : {-wanted.step, wanted.step})
    while (best > 0 && best + step > wanted.from && best + step < size && look(best + step)) {
    }
  for (int step = wanted.step / 2; step >= wanted.finest; step /= 2)
    if (const int last = std::max(best, wanted.from); last > 0 && last + step < size)
      look(last + step);
  return best;
}

int Ladder::last() {
  if (lastRung)
    return *lastRung;
  // Rungs down to the smallest peak have a schedule. Those right below may as well, as the planner
  // looks for its smallest peak in steps that are coarser on large graphs.
  const Bytes smallest = planner.smallest().peakBytes;
  int found = -1;
  while (found + 1 < size && budgetOf(found + 1) >= smallest)
    ++found;
  int step = 1;
  while (found + step < size && at(found + step)) {
    found += step;
    step *= 2;
  }
  int missing = std::min(found + step, size);
  while (found + 1 < missing) {
    const int middle = found + (missing - found) / 2;
    (at(middle) ? found : missing) = middle;
  }
  lastRung = found;
  return found;
}

} // namespace stow
