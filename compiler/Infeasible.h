// STOW1001: the budget cannot be met. What could be, what stands in the way, and what would help.
#pragma once

#include "compiler/Options.h"
#include "passes/plan/Budget.h"
#include "runtime/base/Error.h"

namespace stow {

/// The error for an arena of at most `budget`, for which `planner` found no choice (docs/errors.md).
/// `beside` is what --memory-budget covers besides. `context` is for planning smaller batches.
Error infeasible(mlir::MLIRContext &context, BudgetPlanner &planner, const CompileOptions &options,
                 Bytes budget, Bytes beside);

} // namespace stow
