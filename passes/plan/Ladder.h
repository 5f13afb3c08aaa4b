// The ladder of budgets: every question about memory is answered from this one list.
//
//   rung     0      1      2     ...   last            399      quarters of a percent of the peak of
//   budget  100 %  99.75  99.5         61.25           0.25     program order
//   peak    |-------- falls -----------|  no schedule found
//   time    |-------- rises -----------|
//
// A rung is a schedule of the training graph, found when it is first asked for. What it is does not
// depend on what was asked before.
#pragma once

#include "passes/solvers/schedule/PlanSchedule.h"

#include <functional>
#include <map>

namespace stow {

class Ladder {
public:
  static constexpr int size = 400;
  static constexpr int percent = size / 100;

  /// `planner` must outlive the ladder. Schedules of more than `most` are of no use.
  explicit Ladder(schedule::Planner &planner, schedule::Cost most = schedule::kAnyTime)
      : planner(planner), most(most) {}

  /// Live bytes that the schedule of a rung may take.
  Bytes budgetOf(int rung) const;

  /// Absent from the first rung on for which there is no schedule.
  const std::optional<schedule::FrontierRow> &at(int rung);

  /// What to look for among rungs that are `step` apart.
  struct Wanted {
    schedule::Cost time = schedule::kAnyTime; ///< most nanoseconds
    int step = percent;
    int finest = step; ///< of steps that are halved behind the best rung
    int from = 0;      ///< only rungs behind this one
    /// What a schedule within that time is worth; everything kept is worth nothing.
    std::function<double(schedule::Cost time, Bytes peakBytes)> worth = {};
    /// The time from which on a schedule of that peak is worth nothing.
    std::function<schedule::Cost(Bytes peakBytes)> timeOfNoWorth = {};
  };
  /// The rung that is worth most, then takes the least time, where worth rises and then falls; on others one
  /// that is worth more than its neighbours. -1 where none is worth anything. Solves a rung for each doubling
  /// of what is saved, until one takes too much time or is worth less, and a few between. Solves none where bounds
  /// say of each that it is worth nothing.
  int bestWithin(const Wanted &wanted);

  /// The last rung with a schedule, that with the least live bytes; -1 where none has one. As much
  /// work as one rung far down: the planner's own way to its smallest peak.
  int last();

private:
  bool mayBeWorth(const Wanted &wanted);

  schedule::Planner &planner;
  const schedule::Cost most;
  std::map<int, std::optional<schedule::FrontierRow>> known;
  std::optional<int> lastRung;
};

} // namespace stow
