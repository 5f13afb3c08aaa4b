#include "compiler/CardVerdict.h"

#include "compiler/Accumulation.h"
#include "compiler/Infeasible.h"
#include "compiler/MixedPrecision.h"
#include "runtime/base/Error.h"
#include "runtime/host/Arena.h"

#include <absl/strings/str_format.h>
#include <cstdio>

namespace stow {

std::optional<Card> cardOf(const CompileOptions &options) {
  if (options.card)
    return options.card;
  if (std::optional<Card> card = chooseBackend(options)->card())
    return card;
  if (!options.fit)
    return std::nullopt;
  if (options.target == "host")
    return Card{"this machine", host::availableMemory(), 0, 0};
  throw Error::badInput(
      "--fit asks whether the step fits the card, and --target=" + options.target +
      " names none with a known memory; say how much it has: --card=24GiB");
}

Verdict verdictOn(mlir::MLIRContext &context, const CompileOptions &options, const Plan &plan,
                  const Card &card) {
  Verdict verdict = judge(plan, card);
  if (verdict.fits())
    return verdict;
  if (options.lossChunks == 0 || options.rowChunks == 0 || options.accumulateAuto) {
    verdict.remedies = remediesOf(plan); // another plan of the step would be one in other pieces
    return verdict;
  }
  CompileOptions planned = options;
  planned.accumulate = plan.batchesPerStep; // --accumulate may have been no split
  mlir::ScopedDiagnosticHandler silent(&context,
                                       [](mlir::Diagnostic &) { return mlir::success(); });
  StageTimer timer;
  const StepWithPlanner step = chooseStep(context, perBatch(context, planned), timer);
  addRemedies(verdict, context, *step.planner, step.costs, step.options, plan);
  return verdict;
}

void requireFit(const Verdict &verdict, const CompileOptions &options) {
  if (verdict.fits())
    return;
  if (options.fit)
    throw Error::infeasible("STOW1002: the step does not fit the card\n" + renderVerdict(verdict));
  absl::FPrintF(stderr, "warning: the step does not fit the card: %s\n", verdictLine(verdict));
}

} // namespace stow
