// The joint decision under a memory budget: order, recomputation, in-place sharing and packing.
//
//   candidates, by rising time          budget B
//     keep everything             arena      |
//     schedules, 1/4 % apart      arena      |   the first whose packed arena is at most B wins
//       with windows tightened    arena      |
//     segments (sqrt)             arena      v
//
// The list does not depend on B, and B only says where to walk: a smaller budget never gives a
// larger arena nor less time. Schedules are computed when the walk comes to them. Each candidate is
// judged by its real arena, packed and verified, not by its sum of live bytes.
#pragma once

#include "passes/order/ScheduleProblem.h"
#include "passes/solvers/schedule/PlanSchedule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <vector>

namespace stow {

/// One way to run the step, packed and verified.
struct StepChoice {
  std::string method;                         ///< "keep all", "schedule" or "segments"
  std::optional<schedule::Solution> solution; ///< of a schedule
  schedule::Cost time = 0;                    ///< of the training graph, in nanoseconds
  Bytes livePeakBytes = 0;                    ///< state included
  Bytes arenaBytes = 0;
  mlir::OwningOpRef<mlir::ModuleOp> placed;
};

struct BudgetOptions {
  double effort = 1; ///< of the schedule search; 0: cuts only
};

class BudgetPlanner {
public:
  /// `prepared` is the step form, fused, with layouts and workspaces. It is not changed.
  /// Throws Error when a pass fails.
  BudgetPlanner(mlir::ModuleOp prepared, const CostModel &costs, BudgetOptions options = {});
  ~BudgetPlanner();

  /// The training graph as a schedule problem: what `stowage remat` takes.
  const schedule::Problem &problem() const;

  /// The step with everything kept: 100 % of a relative budget, and the least time.
  const StepChoice &keepAll() const;

  /// The fastest candidate whose arena is at most `budget`; absent if there is none.
  std::optional<StepChoice> plan(Bytes budget);

  /// The candidate with the smallest arena.
  const StepChoice &smallest();

  /// No order, with any number of recomputations, has a smaller arena.
  Bytes lowerBound();

  /// No schedule within the budget takes less time, in nanoseconds.
  schedule::Cost timeBound(Bytes budget);

  /// The ordered form of a choice: before packing.
  mlir::OwningOpRef<mlir::ModuleOp> ordered(const StepChoice &choice) const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace stow
