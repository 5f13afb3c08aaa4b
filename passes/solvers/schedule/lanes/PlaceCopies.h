// When copies start and what waits for them, for spells that were chosen to be spent away.
//
//   out     starts as soon as its bytes are written, in the order in which spells begin; the run
//           that needs the room awaits it, and no run before that
//   in      starts as soon as there is room until its reader, in the order of the readers, if that
//           is within the time by which copies may come ahead; its reader awaits it
//   spell   whose copy out nobody had to await before its reader has not left: it is not copied
//
// Positions depend on bytes and on the costs of runs, not on bandwidths: a faster link makes no step
// of a placement later.
#pragma once

#include "passes/solvers/schedule/lanes/Residency.h"

namespace stow::schedule {

/// A step, as long as it is looked at by the thousand: a run by its position, a copy by its spell.
struct Event {
  Step::Kind kind = Step::Kind::Run;
  int32_t number = 0;
};

struct Placement {
  std::vector<Event> events;
  Bytes slowPeakBytes = 0;
  Bytes bytesOut = 0, bytesIn = 0;
};

/// `away`: idle spells, ascending, without which the bytes are within `budgetBytes` at every run. A copy
/// in starts at most `ahead` before its reader, in the time of runs. O((runs + spells) log runs).
Placement placeCopies(const Residency &residency, const std::vector<int32_t> &away,
                      Bytes budgetBytes, Cost ahead);

/// The time that the events take: exactly what the checker will find.
Cost timeOf(const Residency &residency, const Lanes &lanes, const Placement &placement);

/// The events as steps of the schedule that the residency is of.
LaneSolution stepsOf(const Residency &residency, const Solution &solution,
                     const Placement &placement);

} // namespace stow::schedule
