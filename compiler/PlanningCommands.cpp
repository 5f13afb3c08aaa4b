// `stowage frontier` and `stowage max-batch`.
#include "compiler/Commands.h"
#include "compiler/FrontierReport.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "runtime/base/Error.h"
#include "runtime/program/Flags.h"

#include "mlir/IR/MLIRContext.h"

#include <cstdio>
#include <filesystem>

using namespace mlir;

namespace stow {
int frontierCommand(const std::vector<std::string> &arguments) {
  std::vector<std::string> words = arguments;
  std::string format = takeFlag(words, "format").value_or("text");
  renderFrontier(Frontier{{FrontierPoint()}, 0, "", ""}, format); // fails before the work
  double step = 5;
  if (auto text = takeFlag(words, "step"))
    step = parseReal("step", *text);
  if (!(step >= 0.1 && step <= 100))
    throw Error::badInput("--step is the distance of budgets in percent; expected 0.1 to 100");
  CompileOptions options = parseCompileOptions(words, /*wantsOutput=*/true);
  if (options.memoryBudget || options.checkpoint != "none")
    throw Error::badInput("stowage frontier plans every budget; leave out --memory-budget and "
                          "--checkpoint");
  MLIRContext context;
  prepareContext(context);
  const std::unique_ptr<Backend> backend = chooseBackend(options);
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, *backend);
  CostModel costs = weighStep(*prepared, options, *backend);
  BudgetOptions planning;
  planning.candidates.refusedPath = refusedPathOf(options);
  BudgetPlanner planner(*prepared, costs, planning);
  saveProblem(planner, options);
  Frontier frontier =
      findFrontier(planner, costs, step, format == "html" ? KeepPlans::Yes : KeepPlans::No);
  frontier.model = std::filesystem::path(options.modelPath).filename().string();
  reportRefusals(planner.refusals(), std::nullopt);
  writeReport(renderFrontier(frontier, format), options.outputPath);
  return 0;
}

int maxBatchCommand(const std::vector<std::string> &arguments) {
  std::vector<std::string> words = arguments;
  int64_t limit = 1 << 20;
  if (auto text = takeFlag(words, "limit"))
    limit = parseCount("limit", *text, 1);
  CompileOptions options = parseCompileOptions(words, /*wantsOutput=*/false);
  if (!options.memoryBudget || !options.memoryBudget->bytes)
    throw Error::badInput("stowage max-batch needs --memory-budget in bytes, e.g. "
                          "--memory-budget=2GiB");
  if (!options.profile.empty())
    throw Error::badInput(
        "the largest batch that fits does not depend on times; leave out --profile");
  if (options.import.batch)
    throw Error::badInput("stowage max-batch finds the batch; leave out --batch");
  const Bytes budget = *options.memoryBudget->bytes;
  MLIRContext context;
  prepareContext(context);
  BatchAnswer answer = findMaxBatch(aboutBatches(context, options, budget), limit);
  reportRefusals(answer.refusals, std::nullopt);
  if (answer.batch == 0)
    throw Error::infeasible("STOW1001: not even a batch of 1 fits " + formatBytesExact(budget) +
                            "; the smallest arena found for it is " +
                            formatBytesExact(answer.nextSmallest));
  std::printf("largest batch: %lld\n", static_cast<long long>(answer.batch));
  std::printf("  budget  %s\n  arena   %s, %.2f %% more time for recomputation\n",
              formatBytesExact(budget).c_str(), formatBytesExact(answer.arenaBytes).c_str(),
              100 * answer.extraTime);
  if (answer.nextSmallest)
    std::printf("  batch %lld takes %s, the smallest arena found\n",
                static_cast<long long>(answer.batch + 1),
                formatBytesExact(answer.nextSmallest).c_str());
  else
    std::printf("  batches above %lld were not tried (--limit)\n", static_cast<long long>(limit));
  if (answer.provenAbove)
    std::printf("  batch %lld is proven not to fit: every schedule takes at least %s\n",
                static_cast<long long>(*answer.provenAbove),
                formatBytesExact(answer.provenBytes).c_str());
  return 0;
}

} // namespace stow
