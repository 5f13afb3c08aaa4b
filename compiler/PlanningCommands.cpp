// `stowage frontier` and `stowage max-batch`.
#include "compiler/Accumulation.h"
#include "compiler/Commands.h"
#include "compiler/FixedBatch.h"
#include "compiler/FrontierReport.h"
#include "compiler/MixedPrecision.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "runtime/base/Error.h"

#include "mlir/IR/MLIRContext.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <filesystem>
#include <memory>

using namespace mlir;

namespace stow {
namespace {

struct FrontierRequest {
  CompileOptions options;
  ReportPlace place;
  double step = 5; ///< percent of the arena without a budget
};

double parseStep(const std::string &text) {
  const double step = parseReal("step", text);
  if (!(step >= 0.1 && step <= 100))
    throw Error::badInput("--step is the distance of budgets in percent; expected 0.1 to 100");
  return step;
}

int frontier(FrontierRequest &request) {
  CompileOptions &options = request.options;
  finishOptions(options);
  if (options.memoryBudget || options.checkpoint == "sqrt" || options.recompute)
    throw Error::badInput(
        "stowage frontier plans every budget; leave out --memory-budget, --recompute and "
        "--checkpoint" +
        std::string(options.accumulateAuto ? ", and say how many batches: --accumulate=K" : ""));
  MLIRContext context;
  prepareContext(context);
  StageTimer timer;
  const StepWithPlanner step = chooseStep(context, perBatch(context, options), timer);
  saveProblem(*step.planner, options);
  Frontier frontier =
      findFrontier({*step.planner, step.costs, step.options.wide.note}, request.step,
                   request.place.format == "html" ? KeepPlans::Yes : KeepPlans::No);
  frontier.model = std::filesystem::path(options.modelPath).filename().string();
  reportRefusals(step.planner->refusals(), std::nullopt);
  writeReport(renderFrontier(frontier, request.place.format), request.place);
  return 0;
}

/// What is known of a file that has one batch only: whether that fits.
Error onlyOneBatch(MLIRContext &context, const CompileOptions &options, const FixedBatch &fixed,
                   Bytes budget) {
  StageTimer timer;
  const StepWithPlanner step = chooseStep(context, perBatch(context, options), timer);
  BudgetPlanner &planner = *step.planner;
  const std::string batch = std::to_string(fixed.batch), within = formatBytesExact(budget);
  const std::optional<StepChoice> choice = planner.plan(budget);
  const std::string verdict =
      choice
          ? "that batch fits " + within + ": the arena is " + formatBytesExact(choice->arenaBytes)
          : "that batch does not fit " + within + ": the smallest arena found for it is " +
                formatBytesExact(planner.smallest().arenaBytes);
  reportRefusals(planner.refusals(), std::nullopt);
  return Error::badInput("no largest batch: that of \"" + options.modelPath + "\" is fixed at " +
                         batch + "\n  " + fixed.reason + "\n  " + verdict);
}

void printLargest(int64_t batch, int64_t parts) {
  absl::PrintF("largest batch: %d\n", batch * parts);
  if (parts > 1)
    absl::PrintF("  in %d parts of %d (--accumulate=%d)\n", parts, batch, parts);
}

void printArena(Bytes budget, Bytes arenaBytes, double extraTime) {
  absl::PrintF("  budget  %s\n  arena   %s, %.2f %% more time for recomputation\n",
               formatBytesExact(budget), formatBytesExact(arenaBytes), 100 * extraTime);
}

int maxBatch(CompileOptions &options, int64_t limit) {
  finishOptions(options);
  if (!options.memoryBudget || !options.memoryBudget->bytes)
    throw Error::badInput("stowage max-batch needs --memory-budget in bytes, e.g. "
                          "--memory-budget=2GiB");
  if (!options.profile.empty())
    throw Error::badInput(
        "the largest batch that fits does not depend on times; leave out --profile");
  if (options.import.batch)
    throw Error::badInput("stowage max-batch finds the batch; leave out --batch");
  if (options.accumulateAuto)
    throw Error::badInput(
        "stowage max-batch finds the batch for a number of parts that is given; say "
        "how many: --accumulate=K");
  if (options.budgetCovers == BudgetCovers::Process && !options.outside)
    throw Error::badInput(
        "stowage max-batch with --budget-covers=process needs --outside=SIZE, what "
        "the process takes beside the arena");
  const bool coversProcess = options.budgetCovers == BudgetCovers::Process;
  const Bytes beside = coversProcess ? *options.outside : 0;
  const Bytes budget = *options.memoryBudget->bytes - beside;
  if (budget < 0)
    throw Error::infeasible(absl::StrCat(
        "STOW1001: the budget of ", formatBytesExact(*options.memoryBudget->bytes),
        " covers the process, of which ", formatBytesExact(beside), " are outside the arena"));
  MLIRContext context;
  prepareContext(context);
  if (const std::optional<FixedBatch> fixed = findFixedBatch(context, options))
    throw onlyOneBatch(context, options, *fixed, budget);
  // What is asked about is one of the batches that a step has.
  const int64_t parts = options.accumulate;
  BatchAnswer answer = findMaxBatch(aboutBatches(context, options, budget), limit / parts);
  reportRefusals(answer.refusals, std::nullopt);
  if (answer.batch == 0)
    throw Error::infeasible(absl::StrCat(
        "STOW1001: not even a batch of ", parts, " fits ", formatBytesExact(budget),
        "; the smallest arena found for it is ", formatBytesExact(answer.nextSmallest)));
  printLargest(answer.batch, parts);
  printArena(budget, answer.arenaBytes, answer.extraTime);
  if (answer.nextSmallest)
    absl::PrintF("  batch %d takes %s, the smallest arena found\n", (answer.batch + 1) * parts,
                 formatBytesExact(answer.nextSmallest));
  else
    absl::PrintF("  batches above %d were not tried (--limit)\n", limit);
  if (answer.provenAbove)
    absl::PrintF("  batch %d is proven not to fit: every schedule takes at least %s\n",
                 *answer.provenAbove * parts, formatBytesExact(answer.provenBytes));
  return 0;
}

} // namespace

Run frontierCommand(CommandLine &line) {
  auto request = std::make_shared<FrontierRequest>();
  addReportFlags(line, request->place, frontierFormats());
  line.value("step", "PERCENT", "distance of the budgets that are planned (default: 5)",
             [request](const std::string &text) { request->step = parseStep(text); });
  addCompileFlags(line, request->options);
  addModelWord(line, request->options);
  return [request] { return frontier(*request); };
}

Run maxBatchCommand(CommandLine &line) {
  struct Request {
    CompileOptions options;
    int64_t limit = 1 << 20;
  };
  auto request = std::make_shared<Request>();
  line.value("limit", "N", "the largest batch tried (default: 1048576)",
             [request](const std::string &text) { request->limit = parseCount("limit", text, 1); });
  addCompileFlags(line, request->options);
  addModelWord(line, request->options);
  return [request] { return maxBatch(request->options, request->limit); };
}

} // namespace stow
