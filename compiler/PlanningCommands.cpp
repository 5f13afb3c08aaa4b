// `stowage frontier` and `stowage max-batch`.
#include "compiler/Accumulation.h"
#include "compiler/Commands.h"
#include "compiler/FixedBatch.h"
#include "compiler/FrontierReport.h"
#include "compiler/MixedPrecision.h"
#include "compiler/PartialEvaluation.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <deque>
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

/// A step with a planner of its own.
struct StepWithPlanner {
  std::unique_ptr<Backend> backend;
  OwningOpRef<ModuleOp> prepared;
  CostModel costs;
  std::optional<BudgetPlanner> planner;

  StepWithPlanner(MLIRContext &context, const CompileOptions &options)
      : backend(chooseBackend(options)), prepared(prepareStep(context, options, *backend)),
        costs(weighStep(*prepared, options, *backend)) {
    BudgetOptions planning;
    planning.candidates.refusedPath = refusedPathOf(options);
    planning.evaluation = evaluationParts(context, perBatch(context, options), *backend);
    planner.emplace(*prepared, costs, backend->target(), planning);
  }
};

/// What plans go back to where the step in 16 bits does not fit; nothing in f32.
std::vector<Way> waysBelow(MLIRContext &context, const CompileOptions &options) {
  if (options.precision == Precision::F32)
    return {};
  auto compile = [&](const CompileOptions &chosen) {
    StageTimer timer;
    return compileAsAsked(context, chosen, timer);
  };
  auto ofAllBatches = [&](CompileOptions chosen) {
    chosen.import.batch = options.import.batch;
    return chosen;
  };
  auto prepare = [&](const CompileOptions &chosen, const Backend &backend) {
    return prepareStep(context, ofAllBatches(chosen), backend);
  };
  std::vector<Way> ways = waysInF32(context, perBatch(context, options), compile, prepare);
  for (Way &way : ways)
    way.options = ofAllBatches(std::move(way.options));
  return ways;
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
  std::deque<StepWithPlanner> steps;
  steps.emplace_back(context, options);
  saveProblem(*steps.front().planner, options);
  std::vector<FrontierWay> ways = {{*steps.front().planner, steps.front().costs}};
  for (const Way &way : waysBelow(context, options)) {
    StepWithPlanner &step = steps.emplace_back(context, way.options);
    const bool isWide = way.options.precision == Precision::F32;
    ways.push_back({*step.planner, step.costs, isWide ? " in f32" : " partly in f32", way.note});
  }
  Frontier frontier = findFrontier(ways, request.step,
                                   request.place.format == "html" ? KeepPlans::Yes : KeepPlans::No);
  frontier.model = std::filesystem::path(options.modelPath).filename().string();
  for (const StepWithPlanner &step : steps)
    reportRefusals(step.planner->refusals(), std::nullopt);
  writeReport(renderFrontier(frontier, request.place.format), request.place);
  return 0;
}

/// Larger batches of a step in 16 bits that fit with some of it, or all, in f32.
class LargerInF32 {
public:
  LargerInF32(MLIRContext &context, const CompileOptions &options, Bytes budget)
      : context(context), options(options) {
    this->options.memoryBudget = {budget, {}};
    this->options.budgetCovers = BudgetCovers::Arena;
    this->options.stopAfter = Form::Placed;
    this->options.remarksPath.clear();
    this->options.saveProblemPath.clear();
  }

  /// The largest batch above `fits`; absent where there is none up to `limit`.
  std::optional<int64_t> above(int64_t fits, int64_t limit) {
    int64_t largest = fits, step = 1;
    while (largest + step <= limit && isWithin(largest + step)) {
      largest += step;
      step *= 2;
    }
    for (int64_t fails = std::min(largest + step, limit + 1); largest + 1 < fails;) {
      const int64_t middle = largest + (fails - largest) / 2;
      (isWithin(middle) ? largest : fails) = middle;
    }
    return largest > fits ? std::optional(largest) : std::nullopt;
  }

  /// Whether a batch fits; without one, that of the file.
  bool isWithin(std::optional<int64_t> batch) {
    options.import.batch.reset();
    if (batch)
      options.import.batch = *batch * options.accumulate;
    ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
    try {
      StageTimer timer;
      known = std::move(compileToPlan(context, options, timer).plan);
      return true;
    } catch (const Error &error) {
      if (error.kind() == ErrorKind::Internal)
        throw;
      return false; // too large, or nothing but 16 bits can be run
    }
  }

  /// Of the largest batch that fits.
  const Plan &plan() const { return known; }

private:
  MLIRContext &context;
  CompileOptions options;
  Plan known;
};

/// What is known of a file that has one batch only: whether that fits.
Error onlyOneBatch(MLIRContext &context, const CompileOptions &options, const FixedBatch &fixed,
                   Bytes budget) {
  StepWithPlanner step(context, options);
  BudgetPlanner &planner = *step.planner;
  const std::string batch = std::to_string(fixed.batch), within = formatBytesExact(budget);
  std::optional<Bytes> arena;
  if (const std::optional<StepChoice> choice = planner.plan(budget))
    arena = choice->arenaBytes;
  else if (LargerInF32 wide(context, options, budget);
           options.precision != Precision::F32 && wide.isWithin({}))
    arena = wide.plan().arenaBytes;
  const std::string verdict =
      arena ? "that batch fits " + within + ": the arena is " + formatBytesExact(*arena)
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
  if (options.precision != Precision::F32) {
    LargerInF32 larger(context, options, budget);
    if (const auto batch = larger.above(answer.batch, limit / parts)) {
      printLargest(*batch, parts);
      printArena(budget, larger.plan().arenaBytes, larger.plan().extraTimeFraction);
      for (const std::string &note : larger.plan().notes)
        absl::PrintF("  %s\n", note);
      return 0;
    }
  }
  const std::string in16Bits = options.precision != Precision::F32 ? " in 16 bits" : "";
  if (answer.batch == 0)
    throw Error::infeasible(absl::StrCat("STOW1001: not even a batch of ", parts, " fits ",
                                         formatBytesExact(budget),
                                         "; the smallest arena found for it", in16Bits, " is ",
                                         formatBytesExact(answer.nextSmallest)));
  printLargest(answer.batch, parts);
  printArena(budget, answer.arenaBytes, answer.extraTime);
  if (answer.nextSmallest)
    absl::PrintF("  batch %d takes %s%s, the smallest arena found\n", (answer.batch + 1) * parts,
                 formatBytesExact(answer.nextSmallest), in16Bits);
  else
    absl::PrintF("  batches above %d were not tried (--limit)\n", limit);
  if (answer.provenAbove)
    absl::PrintF("  batch %d is proven not to fit%s: every schedule takes at least %s\n",
                 *answer.provenAbove * parts, in16Bits, formatBytesExact(answer.provenBytes));
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
