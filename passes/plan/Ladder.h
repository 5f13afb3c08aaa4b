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

  /// `planner` must outlive the ladder.
  explicit Ladder(schedule::Planner &planner) : planner(planner) {}

  /// Live bytes that the schedule of a rung may take.
  Bytes budgetOf(int rung) const;

  /// Absent from the first rung on for which there is no schedule.
  const std::optional<schedule::FrontierRow> &at(int rung);

  /// What to look for among rungs that are `step` apart.
  struct Wanted {
    schedule::Cost time; ///< most nanoseconds
    int step = percent;
    int finest = step; ///< of steps that are halved behind the best rung
    int from = 0;      ///< only rungs behind this one
    /// What a schedule within that time is worth; everything kept is worth nothing.
    std::function<double(const schedule::FrontierRow &)> worth = {};
  };
  /// The rung that is worth most, then takes the least time, where worth rises and then falls; on others one
  /// that is worth more than its neighbours. -1 where none is worth anything. Solves a rung for each doubling
  /// of what is saved, until one takes too much time or is worth less, and a few between.
  int bestWithin(const Wanted &wanted);

  /// The last rung with a schedule, that with the least live bytes; -1 where none has one. As much
  /// work as one rung far down: the planner's own way to its smallest peak.
  int last();

private:
  schedule::Planner &planner;
  std::map<int, std::optional<schedule::FrontierRow>> known;
  std::optional<int> lastRung;
};

} // namespace stow
