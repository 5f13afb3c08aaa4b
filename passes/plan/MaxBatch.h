// The largest batch under a budget: doubling, then bisection, each probe a whole plan.
//
//   fits          1   2   4   8  . 12 .  16        16 does not fit; 8..16 is bisected
//   proven not                          16         lower bound above the budget
#pragma once

#include "passes/plan/Budget.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace stow {

/// The prepared step, as BudgetPlanner takes it, at a batch. Throws Error where the model has none.
using StepAtBatch = std::function<mlir::OwningOpRef<mlir::ModuleOp>(int64_t batch)>;

/// What is asked about batches: the steps, what their ops cost, and the bytes they must fit.
struct BatchQuestion {
  StepAtBatch stepAt;
  /// The parts in which the evaluation of a batch may run; empty: none.
  std::function<EvaluationParts(int64_t batch)> partsAt = {};
  std::shared_ptr<const Target> target; ///< that the steps were prepared for
  CostModel costs;
  Bytes budget = 0;
  CandidateOptions candidates = {};
};

/// The largest batch that fits, and why not more.
struct BatchAnswer {
  int64_t batch = 0;                  ///< 0: not even one sample
  Bytes arenaBytes = 0;               ///< of `batch`
  double extraTime = 0;               ///< recomputed time over time once
  std::optional<int64_t> provenAbove; ///< this batch and larger ones cannot fit
  Bytes provenBytes = 0;              ///< the lower bound that proves it
  Bytes nextSmallest = 0;             ///< smallest arena found for batch + 1
  std::vector<Refusal> refusals;      ///< candidates of all probes that the checks refused
};

/// Batches above `limit` are not tried. Throws Error as `stepAt` does.
BatchAnswer findMaxBatch(const BatchQuestion &question, int64_t limit);

/// A batch and its choice with the smallest arena.
struct BatchChoice {
  int64_t batch = 0;
  const StepChoice *choice = nullptr;
};

/// A batch near `guess` that fits, each probe one QuickPlacement; `batch` is 0 if none of them does.
/// A probe that fails draws a line to `tooLarge`, a larger batch that does not fit, and the next one
/// goes where that meets the budget. Its extra time is not worked out. Throws Error as `stepAt` does.
BatchAnswer findSomeBatch(const BatchQuestion &question, int64_t guess, BatchChoice tooLarge);

} // namespace stow
