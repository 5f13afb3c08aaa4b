#include "compiler/CardVerdict.h"

#include "compiler/Infeasible.h"
#include "runtime/base/Error.h"

#include <absl/strings/str_join.h>
#include <algorithm>

namespace stow {

namespace {

/// The device's own; with --fit, this machine, for a step that runs on it; absent where nothing is asked.
std::optional<Card> cardAsked(const CompileOptions &options, const Backend *backend,
                              const std::string &named) {
  if (std::optional<Card> card = backend ? backend->card() : std::nullopt)
    return card;
  if (!options.fit)
    return std::nullopt;
  if (const auto available = backend ? backend->availableMemory() : std::nullopt)
    return Card{"this machine", *available, 0, 0};
  throw Error::badInput("--fit asks whether the step fits the card, and " + named +
                        " names none with a known memory; say how much it has: --card=24GiB");
}

/// With --reserve it says what others take of the card. Throws Error(BadInput) where there is neither a card nor a budget that it is of.
std::optional<Card> withReserve(std::optional<Card> card, const CompileOptions &options) {
  if (card && options.reserve)
    card->systemBytes = *options.reserve;
  if (!card && options.reserve && !(options.memoryBudget && options.memoryBudget->bytes))
    throw Error::badInput(
        "--reserve leaves memory of a card, or of a budget in bytes, to others, and "
        "neither is known; give --card=24GiB or --memory-budget=BYTES");
  return card;
}

std::optional<Card> cardOfFile(const PlanFile &file, const CompileOptions &options) {
  if (file.verdict)
    return file.verdict->card;
  if (file.target.empty())
    return cardAsked(options, nullptr, "the plan's file");
  return cardAsked(options, createBackend({.target = file.target}).get(),
                   "--target=" + file.target);
}

} // namespace

std::optional<Card> cardOf(const CompileOptions &options) {
  const std::unique_ptr<Backend> backend = chooseBackend(options);
  std::optional<Card> card =
      options.card ? options.card : cardAsked(options, backend.get(), "--target=" + options.target);
  if (card && options.devices > 1)
    card->processBytes += *backend->outsideOfRanks().bytes;
  return withReserve(std::move(card), options);
}

Bytes budgetOfCard(const CompileOptions &options) {
  const std::optional<Card> card = cardOf(options);
  if (!card)
    throw Error::badInput(
        "--memory-budget=card plans for what the card has, and --target=" + options.target +
        " names none with a known memory; say how much it has: --card=24GiB");
  const Bytes process = options.outside.value_or(card->processBytes);
  const bool coversProcess = options.budgetCovers == BudgetCovers::Process;
  const Bytes budget = card->bytes - card->systemBytes - (coversProcess ? 0 : process);
  if (budget <= 0)
    throw Error::infeasible("STOW1001: the card's " + formatBytesExact(card->bytes) +
                            " leave nothing beside " + formatBytesExact(card->systemBytes) +
                            " for others (--reserve) and " + formatBytesExact(process) +
                            " for the process beside its arena (--outside)");
  return budget + options.reserve.value_or(0);
}

std::optional<Card> cardOf(const PlanFile &file, const CompileOptions &options) {
  return withReserve(options.card ? options.card : cardOfFile(file, options), options);
}

namespace {

/// What PyTorch eager takes for the step, by what the file says of its operators; nothing for files that say nothing.
void addEager(Verdict &verdict, mlir::MLIRContext &context, const CompileOptions &options,
              const StepVariant &variant) {
  if (!options.modelPath.ends_with(".onnx"))
    return;
  ImportOptions import = options.import;
  import.batch = variant.samplesPerRun();
  std::optional<eager::Program> program =
      importEager(context, options.modelPath, import, options.loss, options.lossOutput);
  if (!program)
    return;
  program->accumulates = variant.batches > 1;
  verdict.eagerBytes =
      eager::peakOf(*program, options.optimizer, eager::requireDevice(torchDevice(options.target)));
  const bool trainsHalves = std::ranges::any_of(program->tensors, [](const eager::Tensor &tensor) {
    return tensor.kind == eager::Tensor::Kind::Parameter && tensor.width == 2;
  });
  if (trainsHalves) // where a step here keeps float32
    verdict.eagerTypes = "16 bits, optimizer state included";
  else if (options.precision != Precision::F32 && !program->isInHalves)
    verdict.eagerTypes = "float32";
  if (const std::vector<std::string> unknown = eager::unknownOperators(*program); !unknown.empty())
    verdict.eagerNote = "about, as what autograd keeps of these operators is not known here: " +
                        absl::StrJoin(unknown, ", ");
}

} // namespace

Verdict verdictOn(mlir::MLIRContext &context, const CompileOptions &options,
                  const CompiledPlan &compiled, const Card &card) {
  Verdict verdict = judge(compiled.plan, card);
  addEager(verdict, context, options, compiled.step->variant);
  if (verdict.fits())
    return verdict;
  mlir::ScopedDiagnosticHandler silent(&context,
                                       [](mlir::Diagnostic &) { return mlir::success(); });
  addRemedies(verdict, *compiled.steps, *compiled.step, options, compiled.plan);
  return verdict;
}

Verdict verdictOn(const PlanFile &file, const Card &card) {
  const Verdict alone = judgeAlone(file.plan, card);
  if (!file.verdict)
    return alone;
  Verdict verdict = *file.verdict;
  if (verdictLine(judge(file.plan, verdict.card)) == verdictLine(alone))
    return verdict;
  // What PyTorch takes is of the step, whatever the card.
  verdict = alone;
  verdict.eagerBytes = file.verdict->eagerBytes;
  verdict.eagerTypes = file.verdict->eagerTypes;
  verdict.eagerNote = file.verdict->eagerNote;
  return verdict;
}

} // namespace stow
