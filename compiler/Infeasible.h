// STOW1001: the budget cannot be met. What could be, what stands in the way, and what would help; the same help where a plan
// does not fit a card.
#pragma once

#include "compiler/Options.h"
#include "passes/order/CostModel.h"
#include "passes/plan/Budget.h"
#include "runtime/base/Error.h"
#include "runtime/report/Verdict.h"

namespace stow {

/// The error for an arena of at most `budget`, for which `planner` found no choice (docs/errors.md).
/// `beside` is what --memory-budget covers besides. `context` is for planning smaller batches.
Error infeasible(mlir::MLIRContext &context, BudgetPlanner &planner, const CompileOptions &options,
                 Bytes budget, Bytes beside);

/// Fills in what would make the step of `planner` fit, whose plan, `plan`, does not.
void addRemedies(Verdict &verdict, mlir::MLIRContext &context, BudgetPlanner &planner,
                 const CostModel &costs, const CompileOptions &options, const Plan &plan);

} // namespace stow
