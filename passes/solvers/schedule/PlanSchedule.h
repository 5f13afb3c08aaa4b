// The planner of the schedule family: the cheapest schedule under a budget, with its proof.
//
//   stow::schedule::PlanResult result = planSchedule(problem, budgetBytes);
//   if (result.solution) use(result.solution->runs);
//
// How: bounds first (instant, then cuts, then branching), a sweep of cuts over all prices, then a
// walk down a tree of budgets. The tree is fixed by the problem: its nodes are multiples of 10, then
// 5, then 1 percent of the input order's peak, its root is half way (most of the way up where reruns
// explode) between the bound on the peak and the best order's peak. A node asks cuts and search for
// the cheapest schedule within its budget, but takes only one that lies between what its ancestors
// took for more and for less memory:
//
//   time ^  X lower ancestor's answer (fits)       A budget between the two ancestors is answered
//        |    +-----------+                        from inside the box, whoever asks and in whatever
//        |    | this node |                        order. So a smaller budget never gives a larger
//        |    +-----------+                        peak nor less time, on problems of any size, and
//        |                 X upper ancestor's      an answer never depends on earlier questions.
//        +---------------------------------> peak
//
// A node that finds nothing ends the walk: no smaller budget is tried, and answers for larger
// budgets keep above it, so no budget is refused above the smallest peak that any answer has. What
// lies outside of its box is not taken even if it fits: a schedule better in both than the answer
// for more memory. Nodes that a bound decides are not solved.
//
// A walk has work for five usual nodes; each takes at most a third of what is left. So most budgets,
// which are three nodes away, get whole searches, and no budget takes longer than that.
//
// Where ops overwrite what they read (`overwrites`), a second planner answers the same problem with
// copies instead, at the same nodes; its schedules, made legal again, are points of the node, too.
// The work is divided between the two, the searches start from their own schedules alone, and an
// answer is the better of both. (Cuts, evictions and search know of overwrites themselves, and
// mostly find better.)
//
// Deterministic: no clock, no threads; the same problem and options give the same schedule.
#pragma once

#include "passes/solvers/schedule/Graph.h"

#include <functional>
#include <limits>
#include <memory>

namespace stow::schedule {

enum class Status {
  Optimal,    ///< the time equals a proven bound
  Bounded,    ///< a schedule, and a bound that its time exceeds by `gap`
  Infeasible, ///< proven: no schedule has a peak within the budget
  NotFound,   ///< no schedule found, and no proof that there is none
};

struct PlanOptions {
  /// Multiplies all numbers of search moves. 0: cuts only. Above 1 it is rounded down to a power of
  /// two, and nodes look at the answers of every smaller power too, so that more is never worse.
  double effort = 1.0;
  /// Spend more on bounds, and on schedules that they lead to: the phase program (bound L2; none if
  /// built without CBC).
  bool prove = false;
  double proveSeconds = 60; ///< of processor time at most, about
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
  /// Where there is no solution: the smallest peak that a budget is answered with, as far as the
  /// tree tells: on large problems it is asked for whole percents, fives or tens only.
  Bytes smallestPeak = 0;
  std::optional<Solution> smallestPeakSolution;

  Cost bound() const { return std::max(cutBound.value_or(leastTime), phaseBound.value_or(0)); }
};

/// No limit on the time of a schedule.
constexpr Cost kAnyTime = std::numeric_limits<Cost>::max();

/// One row of the time/memory frontier.
struct FrontierRow {
  Bytes peakBytes = 0;
  Cost time = 0;
  Solution solution;
};

/// Answers any number of budgets for one problem. Work is shared between calls; answers are not
/// changed by it.
class Planner {
public:
  /// Throws Error(BadInput) if the problem is malformed.
  explicit Planner(const Problem &problem, PlanOptions options = {});
  ~Planner();

  PlanResult plan(Bytes budgetBytes);

  /// The schedule of `plan`, without its proofs; absent where `plan` has none. Where what takes more than `most`
  /// is of no use, budgets that a bound says take longer are not solved on the way: less work, and another
  /// schedule, on a tree of its own.
  std::optional<FrontierRow> schedule(Bytes budgetBytes, Cost most = kAnyTime);

  /// The smallest peak that a budget is answered with (PlanResult::smallestPeak), and its schedule:
  /// one way down the tree.
  FrontierRow smallest();

  /// No schedule within the budget takes less time: the cut bound of `plan`, without a schedule.
  /// The least time where none fits.
  Cost timeBound(Bytes budgetBytes);

  /// True where a bound, found with less work than that of `timeBound`, says that every schedule within
  /// the budget takes more than `time`.
  bool takesLonger(Bytes budgetBytes, Cost time);

  /// No schedule has a smaller peak.
  Bytes peakBound() const;

  /// Schedules by falling peak and rising time, from everything kept down to the smallest peak
  /// found: the sweep of cuts and, with effort, the tree of budgets (whole percents on problems of
  /// at most 400 ops, fives up to 2,500 ops, tens above).
  std::vector<FrontierRow> frontier();

  /// Schedules by falling peak and rising time that single cuts of the orders give at all prices: a
  /// part of the frontier that takes no search. The orders are among them.
  std::vector<FrontierRow> cuts();

  /// Peak of the input order, pinned bytes included: 100 % of a relative budget.
  Bytes inputOrderPeak() const;

  /// The order without recomputation that has the smallest peak of those found, the input order
  /// if none is better: known from construction on.
  FrontierRow leanestOrder() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

/// One budget, one answer.
PlanResult planSchedule(const Problem &problem, Bytes budgetBytes, const PlanOptions &options = {});

/// `percent` of the peak of the input order, rounded up to whole bytes.
Bytes percentOf(Bytes peakBytes, double percent);

} // namespace stow::schedule
