// STOW1001: the budget cannot be met. What could be, what stands in the way, and what would help.
#pragma once

#include "compiler/Budget.h"
#include "compiler/Options.h"
#include "runtime/base/Error.h"

namespace stow {

/// A budget as bytes; a percentage is of `keepAllBytes`, rounded up. Throws Error(BadInput) for
/// budgets that are not above zero.
Bytes budgetBytes(const ByteBudget &budget, Bytes keepAllBytes);

/// The error for a budget that `planner` found no choice for (docs/errors.md). `context` is for
/// planning smaller batches.
Error infeasible(mlir::MLIRContext &context, BudgetPlanner &planner, const CompileOptions &options,
                 Bytes budget);

} // namespace stow
