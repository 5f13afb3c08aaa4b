// The planner of the schedule family: the cheapest schedule under a budget, with its proof.
//
//   stow::schedule::PlanResult result = planSchedule(problem, budgetBytes);
//   if (result.solution) use(result.solution->runs);
//
// How: bounds first (instant, then cuts). Then schedules for a ladder of budgets, one percent of
// the input order's peak apart: each rung starts from the rung above and from fresh cuts, and is
// improved by local search. The answer to a budget is the cheapest schedule of the whole ladder
// that fits, so a smaller budget never gives a larger peak nor less time. Rungs whose bound already
// exceeds the answer's time are not computed: nothing there could win. Above `ladderLimit` ops the
// ladder is replaced by cuts and search at the budget and at the few percents below it that the
// bound leaves open.
//
// Deterministic: no clock, no threads; the same problem and options give the same schedule.
#pragma once

#include "passes/solvers/schedule/Core.h"
#include "passes/solvers/schedule/CutSchedule.h"

#include <functional>
#include <memory>

namespace stow::schedule {

enum class Status {
  Optimal,    ///< the time equals a proven bound
  Bounded,    ///< a schedule, and a bound that its time exceeds by `gap`
  Infeasible, ///< proven: no schedule has a peak within the budget
  NotFound,   ///< no schedule found, and no proof that there is none
};

struct PlanOptions {
  /// Multiplies all numbers of search moves. 0: cuts only.
  double effort = 1.0;
  /// Solve the phase program (bound L2) for a tighter bound; ignored if built without CBC.
  bool prove = false;
  double proveSeconds = 60;
  /// More ops than this: no ladder.
  size_t ladderLimit = 2500;
  std::function<bool()> cancelled = {};
};

struct PlanResult {
  Status status = Status::NotFound;
  std::optional<Solution> solution;
  Cost time = 0;       ///< of the solution
  Bytes peakBytes = 0; ///< of the solution, as `verify` recounts it
  Cost leastTime = 0;  ///< every op once
  Bytes budgetBytes = 0;
  Bytes inputOrderPeak = 0;
  Bytes peakBound = 0;            ///< no schedule at all has a smaller peak
  std::optional<Cost> cutBound;   ///< L1: least time within the budget; absent if infeasible
  std::optional<Cost> phaseBound; ///< L2, with `prove`
  double gap = 0;                 ///< time / bound - 1
  /// The smallest peak of any schedule met on the way, for messages about infeasible budgets.
  Bytes smallestPeak = 0;
  std::optional<Solution> smallestPeakSolution;

  Cost bound() const { return std::max(cutBound.value_or(leastTime), phaseBound.value_or(0)); }
};

/// One row of the time/memory frontier.
struct FrontierRow {
  Bytes peakBytes = 0;
  Cost time = 0;
  Solution solution;
};

/// Answers any number of budgets for one problem; what it learns is kept between calls.
class Planner {
public:
  /// Throws Error(BadInput) if the problem is malformed.
  explicit Planner(const Problem &problem, PlanOptions options = {});
  ~Planner();

  PlanResult plan(Bytes budgetBytes);

  /// The frontier of the whole ladder, by falling peak, from the input order down to the smallest
  /// peak found. Above `ladderLimit` ops: the frontier of one sweep over the prices of a cut.
  std::vector<FrontierRow> frontier();

  /// Peak of the input order, pinned bytes included: 100 % of a relative budget.
  Bytes inputOrderPeak() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

/// One budget, one answer.
PlanResult planSchedule(const Problem &problem, Bytes budgetBytes, const PlanOptions &options = {});

/// `percent` of the peak of the input order, rounded up to whole bytes.
Bytes percentOf(Bytes peakBytes, double percent);

} // namespace stow::schedule
