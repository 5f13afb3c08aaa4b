// The planner with slow memory: per value and interval, keep it, compute it again, or fetch it.
//
//   LanePlanner planner(problem);
//   LanePlanResult result = planner.plan(budgetBytes, lanes);
//   if (result.solution) use(result.solution->steps);
//
// How. The planner without slow memory (PlanSchedule.h) answers a ladder of budgets above the one
// that is asked for: schedules in which more and more is computed again, the cheapest first. From
// each of them the rest goes to slow memory:
//
//   peak   | S0 nothing runs again
//   of a   |   \  S1                    of each schedule, at each canonical budget D <= B:
//   plain  |     \    S2                  which idle spells go (ChooseAway, four rules)
//   sched. |       \      S3              when copies start, who awaits them (PlaceCopies)
//        B |--------------------          the time, by an exact clock of the lanes
//          +-------------------- time
//
// and the fastest is the answer. So what is cheap to compute again is computed again, what is dear
// is fetched, and where that is in between is found by trying.
//
// What is tried does not depend on bandwidths, nor on the capacity of slow memory, and for a budget
// it is everything that is tried for smaller ones. The time of a fixed list of steps only falls with
// faster links. So, by construction: a larger budget, a faster link, a larger slow memory never make
// an answer slower, and none is slower than recomputation alone, which is among the candidates.
// Branches that cannot hold the answer are left out by bounds, which changes nothing.
//
// State that lies in slow memory (OpLane) is fetched and sent by ops that every schedule has. The
// planner without slow memory orders them, as ops that take their cost; here their copies start as
// early as there is room, and are awaited as late as room allows. Recomputation alone, which waits for
// each of them, is then no candidate: it is asked for by Ways::Recompute.
//
// Canonical budgets are whole percents of the input order's peak (coarser on large problems), so up
// to one percent of a budget in bytes may be left unused by copies.
#pragma once

#include "ir/plan/schedule/Lanes.h"
#include "passes/solvers/schedule/PlanSchedule.h"

namespace stow::schedule {

/// What a plan may do with a value that does not fit.
enum class Ways : int8_t {
  Recompute,
  Fetch,
  Both,
  /// Both, without the search for recomputation alone within the budget: for those who have that answer already, and take the faster.
  Travel,
};

struct LanePlanResult {
  Status status = Status::NotFound;
  std::optional<LaneSolution> solution;
  Cost time = 0;                   ///< of the solution, as `verify` recounts it, as all below
  Cost computeTime = 0;            ///< of its runs
  Cost exposed = 0, hidden = 0;    ///< time of copies that the compute lane waits for, and not
  Bytes bytesOut = 0, bytesIn = 0; ///< that travel
  Bytes peakBytes = 0, slowPeakBytes = 0;
  Cost leastTime = 0; ///< every op once
  Bytes budgetBytes = 0;
  Bytes inputOrderPeak = 0;
  Bytes peakBound = 0;           ///< no schedule at all has a smaller peak
  std::optional<Cost> timeBound; ///< LaneBound; absent if infeasible
  double gap = 0;                ///< time / bound - 1
  /// Of recomputation alone, if it finds a schedule; where ops copy state, by Ways::Recompute alone.
  std::optional<Cost> recomputeTime;

  Cost bound() const { return timeBound.value_or(leastTime); }
};

/// Answers any number of budgets and lanes for one problem; work is shared between calls, answers
/// are not changed by it.
class LanePlanner {
public:
  /// Throws Error(BadInput) if the problem is malformed.
  explicit LanePlanner(const Problem &problem, PlanOptions options = {});
  ~LanePlanner();

  /// Throws Error(BadInput) if the lanes do not belong to the problem.
  LanePlanResult plan(Bytes budgetBytes, const Lanes &lanes, Ways ways = Ways::Both);

  /// No schedule that takes at most as long as the answer has a smaller peak (LaneBound). The answer
  /// must have a solution.
  Bytes peakWithinTime(const LanePlanResult &answer, const Lanes &lanes);

  /// No schedule at all has a smaller peak (LaneBound).
  Bytes peakBound(const Lanes &lanes);

  /// No schedule within the budget takes less time (LaneBound); absent if there is none.
  std::optional<Cost> timeBound(Bytes budgetBytes, const Lanes &lanes);

  /// Peak of the input order, pinned bytes included: 100 % of a relative budget.
  Bytes inputOrderPeak() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace stow::schedule
