#include "compiler/CardVerdict.h"

#include "compiler/Accumulation.h"
#include "compiler/Infeasible.h"
#include "compiler/MixedPrecision.h"
#include "runtime/base/Error.h"
#include "runtime/host/Arena.h"

#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
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

namespace {

/// What PyTorch eager takes for the step, by what the file says of its operators; nothing for files that say nothing.
void addEager(Verdict &verdict, mlir::MLIRContext &context, const CompileOptions &options,
              int64_t batches) {
  if (!options.modelPath.ends_with(".onnx"))
    return;
  CompileOptions split = options;
  split.accumulate = batches;
  const CompileOptions one = perBatch(context, split);
  std::optional<eager::Program> program =
      importEager(context, one.modelPath, one.import, one.loss, one.lossOutput);
  if (!program)
    return;
  program->accumulates = batches > 1;
  const eager::Device device = options.target == "host" ? eager::Device::Cpu : eager::Device::Cuda;
  verdict.eagerBytes = eager::peakOf(*program, options.optimizer, device);
  if (options.precision != Precision::F32)
    verdict.eagerTypes = "float32";
  if (const std::vector<std::string> unknown = eager::unknownOperators(*program); !unknown.empty())
    verdict.eagerNote = "about, as what autograd keeps of these operators is not known here: " +
                        absl::StrJoin(unknown, ", ");
}

} // namespace

Verdict verdictOn(mlir::MLIRContext &context, const CompileOptions &options, const Plan &plan,
                  const Card &card) {
  Verdict verdict = judge(plan, card);
  if (!options.accumulateAuto)
    addEager(verdict, context, options, plan.batchesPerStep);
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
