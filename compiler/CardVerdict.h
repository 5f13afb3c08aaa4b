// --card and --fit: whether a plan fits the card, and what would make it fit.
#pragma once

#include "compiler/Compile.h"
#include "compiler/PlanFile.h"
#include "runtime/report/Verdict.h"

namespace stow {

/// The card that a step is to fit: --card's, or the target's, or with --fit on the host this machine. Absent where none of them
/// is known. Throws Error(BadInput) where --fit asks about a card that nobody knows.
std::optional<Card> cardOf(const CompileOptions &options);

/// The budget that the card leaves beside others and the process (--outside, else an estimate), and what --reserve has of it, which is
/// taken off a budget in bytes. With --budget-covers=process also what the process takes. Throws Error(BadInput) where no card is known,
/// Error(Infeasible) where nothing is left.
Bytes budgetOfCard(const CompileOptions &options);

/// The verdict on what was compiled for `options`. Where the step does not fit, more of it is planned for the remedies.
Verdict verdictOn(mlir::MLIRContext &context, const CompileOptions &options,
                  const CompiledPlan &compiled, const Card &card);

/// The same of a plan out of a file, of which --card and --fit are asked: --card's, or what the file says, or its target's.
std::optional<Card> cardOf(const PlanFile &file, const CompileOptions &options);

/// The verdict on such a plan: the file's own where that is about `card`, else as far as the plan alone tells.
Verdict verdictOn(const PlanFile &file, const Card &card);

} // namespace stow
