#include "passes/plan/Ladder.h"

#include <algorithm>
#include <utility>

namespace stow {

Bytes Ladder::budgetOf(int rung) const {
  return schedule::percentOf(planner.inputOrderPeak(), 100.0 * (size - rung) / size);
}

const std::optional<schedule::FrontierRow> &Ladder::at(int rung) {
  auto [found, isNew] = known.try_emplace(rung);
  if (isNew)
    found->second = planner.schedule(budgetOf(rung));
  return found->second;
}

int Ladder::lastWithin(const Wanted &wanted) {
  int low = 0, found = -1, tooFar = size; // rungs further on take no less time and no more bytes
  const auto rank = [&](int rung) {
    return std::pair(std::max(at(rung)->peakBytes, wanted.enoughBytes), rung);
  };
  const auto look = [&](int rung) {
    const auto &row = at(rung);
    const bool isInTime = row && row->time <= wanted.time;
    const bool isWanted = isInTime && wanted.isWanted(*row);
    const bool isWorseThanFound = found >= 0 && !isWanted;
    if (isWanted && (found < 0 || rank(rung) < rank(found)))
      found = rung;
    (!isInTime || isWorseThanFound || row->peakBytes <= wanted.enoughBytes ? tooFar : low) = rung;
  };
  for (int rung = wanted.step; rung < tooFar; rung *= 2)
    look(rung);
  while (low + wanted.step < tooFar)
    look(low + (tooFar - low) / wanted.step / 2 * wanted.step);
  return found;
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
