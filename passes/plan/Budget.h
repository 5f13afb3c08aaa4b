// The joint decision under a memory budget: order, recomputation, in-place sharing and packing.
//
//   candidates, by rising time          budget B
//     keep everything             arena      |   in program order, or in the order that takes less
//     schedules, 1/4 % apart      arena      |   the first whose packed arena is at most B wins
//       with windows tightened    arena      |
//     segments (sqrt)             arena      v
//
// The list (Ladder) does not depend on B, and B only says where to walk: a smaller budget never gives a
// larger arena nor less time. Schedules are computed when the walk comes to them. Each candidate is
// judged by its real arena, packed and verified, not by its sum of live bytes.
#pragma once

#include "passes/order/ScheduleProblem.h"
#include "passes/plan/Allowance.h"
#include "passes/plan/Candidate.h"
#include "passes/plan/Evaluation.h"
#include "passes/solvers/schedule/PlanSchedule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <vector>

namespace stow {

/// A budget as bytes; a percentage is of `keepAllBytes`, rounded up. Throws Error(BadInput) for
/// budgets that are not above zero.
Bytes budgetBytes(const ByteBudget &budget, Bytes keepAllBytes);

struct BudgetOptions {
  double effort = 1; ///< of the schedule search; 0: cuts only
  CandidateOptions candidates = {};
  EvaluationParts evaluation = {};
};

class BudgetPlanner {
public:
  /// `prepared` is the step form, fused, with layouts and workspaces of `target`. It is not changed;
  /// both must outlive the planner. Throws Error when a pass fails, and Error(Internal) when the checks refuse the step with
  /// everything kept in every order that is tried.
  BudgetPlanner(mlir::ModuleOp prepared, const CostModel &costs, const Target &target,
                BudgetOptions options = {});
  ~BudgetPlanner();

  /// The training graph as a schedule problem: what `stowage remat` takes.
  const schedule::Problem &problem() const;

  /// The step with everything kept, each op run once: 100 % of a relative budget, and the least
  /// time. In the order with the smaller arena: program order, or the best that a search for
  /// orders found.
  const StepChoice &keepAll() const;

  /// Segments of the forward recomputed (schedule::planSegments), or everything kept where that
  /// takes no more.
  const StepChoice &checkpointed();

  /// The plan within the allowance that saves most of the arena, less what its time is worth, as far as
  /// schedules for live bytes a percent apart tell, five percent above 1,000 ops; everything kept where
  /// none saves more than that. Where the smallest arena is asked for, schedules are a quarter of a percent
  /// apart in the end, a percent above 1,000 ops, and evaluation runs on parts of the batch if need be.
  StepChoice within(const Allowance &allowance);

  /// The fastest candidate whose arena is at most `budget`; absent if there is none. Where Ctrl-C ends the search
  /// (runtime/base/LongWork.h), the fastest of those so far, and so with `within`.
  std::optional<StepChoice> plan(Bytes budget);

  /// A candidate whose arena is at most `budget` and whose time is at most `share` above that of everything kept: less work
  /// than `plan`, whose answer may take less time. Absent where none is found so.
  std::optional<StepChoice> planInTime(Bytes budget, double share);

  /// The candidate with the smallest arena.
  const StepChoice &smallest();

  /// Why an evaluation that does not fit `budget` cannot run on parts of the batch; empty where it fits
  /// or can.
  std::string evaluationObstacle(Bytes budget);

  /// Whether joins and slices are placed anew for every order: `problem`, which has those of one order, then bounds no other.
  bool placesJoinsAnew();

  /// No order, with any number of recomputations and whatever lies inside what, has a smaller
  /// arena.
  Bytes lowerBound();

  /// No schedule within the budget takes less time, in nanoseconds.
  schedule::Cost timeBound(Bytes budget);

  /// No schedule within the budget spends a smaller share of the time that its ops take once on
  /// running some of them again.
  double extraTimeBound(Bytes budget);

  /// A choice with a module of its own.
  static StepChoice copyOf(const StepChoice &choice);

  /// The candidates so far that the checks refused. `plan` passes over them.
  std::vector<Refusal> refusals() const;

  /// The ordered form of a choice: before packing.
  mlir::OwningOpRef<mlir::ModuleOp> ordered(const StepChoice &choice) const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace stow
