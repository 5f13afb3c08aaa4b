// --card and --fit: whether a plan fits the card, and what would make it fit.
#pragma once

#include "compiler/Pipeline.h"
#include "runtime/report/Verdict.h"

namespace stow {

/// The card that a step is to fit: --card's, or the target's, or with --fit on the host this machine. Absent where none of them
/// is known. Throws Error(BadInput) where --fit asks about a card that nobody knows.
std::optional<Card> cardOf(const CompileOptions &options);

/// The verdict on the plan of `options`. Where the step does not fit, it is planned again for the remedies.
Verdict verdictOn(mlir::MLIRContext &context, const CompileOptions &options, const Plan &plan,
                  const Card &card);

/// Warns of a step that does not fit its card. Throws Error(Infeasible) STOW1002 where --fit asks for that.
void requireFit(const Verdict &verdict, const CompileOptions &options);

} // namespace stow
