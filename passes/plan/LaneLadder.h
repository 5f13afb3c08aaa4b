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
//
// Packing takes longer than all else, so a rung is only packed where its outline, the same schedule shared but not packed, could
// be taken: no arena is smaller than its live bytes, and its time is that of the packed step.
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

  /// What is known of a candidate before it is packed.
  struct Outline {
    schedule::Cost time = 0; ///< of the packed step
    Bytes liveBytes = 0;     ///< state included; no arena is smaller
  };
  using Draw = std::function<Outline(const schedule::LanePlanResult &)>;
  /// `place` packs a schedule and checks it.
  using Place = std::function<StepChoice(const schedule::LanePlanResult &)>;
  LaneLadder(const StepProblem &step, const SlowMemory &slow, schedule::PlanOptions options,
             Draw draw, Place place);

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

  /// What `table` knows of the schedule of a rung. Neighbours often have the same.
  template <typename Entry> const Entry *findSame(const std::map<int, Entry> &table, int rung) {
    for (const auto &[other, entry] : table)
      if (other == rung || at(other).solution == at(rung).solution)
        return &entry;
    return nullptr;
  }
  const Outline &outlineOf(int rung);
  const StepChoice &placed(int rung);
  Bytes arenaOf(int rung);

  const schedule::Lanes lanes;
  const Bytes capacity; ///< of slow memory, state included
  const schedule::Cost leastTime;
  schedule::LanePlanner planner;
  const Draw draw;
  const Place place;
  std::map<int, schedule::LanePlanResult> known;
  std::map<int, Outline> outlines;
  std::map<int, Bytes> arenas;
  std::optional<std::pair<int, StepChoice>> lastPlaced;
  std::optional<int> lastRung;
};

} // namespace stow
