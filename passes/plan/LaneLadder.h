// The ladder with slow memory: schedules with copies by budget, and the candidates that they make.
//
//   rung     0      1      2     ...   last          99     whole percents of the peak of program order
//   peak    |-------- falls -----------|  no schedule found, and neither below
//   time    |-------- rises -----------|
//
// A rung is the fastest schedule that the planner with lanes finds: what is kept, computed again, and fetched. Recomputation alone
// is another ladder's (Ladder.h). It does not depend on what was asked before, and a budget only says from which rung on
// candidates are looked at. So, by construction: what fits a budget is among the candidates of every larger one, and times of
// rungs, as schedules, rise. A candidate's own time and arena need not: copies then take whole blocks, joins are placed anew and
// packing may overshoot. The first one that fits is taken, not the fastest of all, so a smaller budget may take less time by that
// much.
#pragma once

#include "passes/order/ScheduleProblem.h"
#include "passes/plan/Candidate.h"
#include "passes/solvers/schedule/lanes/PlanLanes.h"

#include <functional>
#include <map>
#include <optional>

namespace stow {

/// The lanes beside a step: those of `slow`, for all that may travel, in what state leaves of its capacity.
schedule::Lanes lanesOf(const StepProblem &step, const SlowMemory &slow);

class LaneLadder {
public:
  static constexpr int size = 100;

  /// `place` packs a schedule and checks it.
  using Place = std::function<StepChoice(const schedule::LaneSolution &)>;
  LaneLadder(const StepProblem &step, const SlowMemory &slow, schedule::PlanOptions options,
             Place place);

  /// The fastest candidate in which something travels, in less than `below` nanoseconds, whose arena is at most `budget`. Only
  /// rungs of at most `liveBytes` are looked at. Absent where there is none.
  std::optional<StepChoice> fastest(Bytes budget, Bytes liveBytes, schedule::Cost below);

  /// The candidate with the smallest arena, if that is less than `below`. No arena is more than `slack` smaller than its
  /// rung's peak.
  std::optional<StepChoice> smallest(Bytes below, Bytes slack);

  /// No schedule of the problem has a smaller peak; within the budget, none takes less time.
  Bytes peakBound() { return planner.peakBound(lanes); }
  schedule::Cost timeBound(Bytes liveBytes);

private:
  Bytes budgetOf(int rung) const;
  const schedule::LanePlanResult &at(int rung);
  int last();
  const StepChoice &placed(int rung);
  Bytes arenaOf(int rung);

  const schedule::Lanes lanes;
  const Bytes capacity; ///< of slow memory, state included
  const schedule::Cost leastTime;
  schedule::LanePlanner planner;
  const Place place;
  std::map<int, schedule::LanePlanResult> known;
  std::map<int, Bytes> arenas;
  std::optional<std::pair<int, StepChoice>> lastPlaced;
  std::optional<int> lastRung;
};

} // namespace stow
