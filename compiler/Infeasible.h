// STOW1001: the budget cannot be met. What could be, what stands in the way, and what would help; the same help where a plan
// does not fit a card.
#pragma once

#include "compiler/ModelSteps.h"
#include "runtime/base/Error.h"
#include "runtime/report/Verdict.h"

namespace stow {

/// The error for an arena of at most `budget`, for which `step` has no choice (docs/errors.md).
/// `beside` is what --memory-budget covers besides. Other steps of the model are planned for the remedies.
Error infeasible(ModelSteps &steps, ModelStep &step, const CompileOptions &options, Bytes budget,
                 Bytes beside);

/// Fills in what would make `step` fit, whose plan, `plan`, does not.
void addRemedies(Verdict &verdict, ModelSteps &steps, ModelStep &step,
                 const CompileOptions &options, const Plan &plan);

} // namespace stow
