// `stowage frontier` and `stowage max-batch`.
#include "compiler/CardVerdict.h"
#include "compiler/Commands.h"
#include "compiler/Compile.h"
#include "compiler/DeviceCases.h"
#include "compiler/FixedBatch.h"
#include "compiler/FrontierReport.h"
#include "compiler/ProgressLine.h"
#include "compiler/Registration.h"
#include "compiler/StepNotes.h"
#include "passes/SmallLaunches.h"
#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/base/LongWork.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <filesystem>
#include <memory>
#include <set>

using namespace mlir;

namespace stow {
namespace {

struct FrontierRequest {
  CompileOptions options;
  ReportPlace place;
  double step = 5; ///< percent of the arena without a budget
};

struct MaxBatchRequest {
  CompileOptions options;
  ReportPlace place;
  int64_t limit = 1 << 20;
  std::optional<double> extraTime; ///< --extra-time, as a share
};

/// "20%" as 0.2.
double parseShare(const std::string &text) {
  const std::string number = text.ends_with("%") ? text.substr(0, text.size() - 1) : text;
  const double percent = parseReal("extra-time", number);
  if (percent < 0 || number == text)
    throw Error::badInput(
        "--extra-time: expected a share of the step's time of at least 0%, e.g. 20%, found '" +
        text + "'");
  return percent / 100;
}

double parseStep(const std::string &text) {
  const double step = parseReal("step", text);
  if (!(step >= 0.1 && step <= 100))
    throw Error::badInput("--step is the distance of budgets in percent; expected 0.1 to 100");
  return step;
}

/// Throws Error(BadInput) where the flags, which have been finished, ask what no frontier answers.
void checkFrontier(const CompileOptions &options) {
  if (options.memoryBudget || options.inSegments || options.recompute)
    throw Error::badInput(
        "stowage frontier plans every budget; leave out --memory-budget, --recompute and "
        "--checkpoint" +
        std::string(options.accumulate == kAny ? ", and say how many batches: --accumulate=K"
                                               : ""));
}

/// `keep` says whether its points keep their plans.
Frontier frontierOf(const CompileOptions &options, double distance, KeepPlans keep) {
  MLIRContext context;
  prepareContext(context);
  StageTimer timer;
  ModelSteps model(context, options, timer);
  const std::shared_ptr<ModelStep> step =
      model.steps.at(askedVariant(context, options), Times::Asked);
  step->say();
  saveProblem(step->planner(), options);
  std::shared_ptr<ModelStep> apart;
  if (areLaunchesJoined(step->module())) {
    StepVariant variant = step->variant;
    variant.launchesApart = true;
    apart = model.steps.exactly(variant, Times::Asked);
  }
  const Interruptible interruptible;
  Frontier frontier = findFrontier({step->planner(), step->costs, noteOf(step->leftWide, options),
                                    apart ? &apart->planner() : nullptr},
                                   distance, keep);
  frontier.model = std::filesystem::path(options.modelPath).filename().string();
  endProgress();
  reportRefusals(step->planner().refusals(), std::nullopt);
  return frontier;
}

/// Of several numbers of devices: one frontier for each way.
int compareFrontiers(const FrontierRequest &request) {
  if (request.place.format == "html")
    throw Error::badInput("the page has one frontier; give one number of --devices, or "
                          "--format=text, csv or json");
  refuseCard(request.options);
  std::vector<FrontierOfDevices> all;
  for (CompileOptions &options : deviceCases(request.options)) {
    options.shapes.clear();
    checkFrontier(options);
    all.push_back(
        {options.devices, shardsOf(options), frontierOf(options, request.step, KeepPlans::No)});
    if (all.back().frontier.isPartial)
      break;
  }
  writeReport(renderFrontiers(all, request.place.format), request.place);
  return exitCodeOf(all.back().frontier.isPartial, "smaller budgets were not planned");
}

int frontier(FrontierRequest &request) {
  CompileOptions &options = request.options;
  if (!options.deviceCounts.empty())
    return compareFrontiers(request);
  finishOptions(options);
  options.shapes.clear(); // of several shapes the largest decides
  checkFrontier(options);
  const bool isPage = request.place.format == "html";
  if (!isPage)
    refuseCard(options);
  const std::optional<Card> card = cardOf(options);
  const Frontier frontier =
      frontierOf(options, request.step, isPage ? KeepPlans::Yes : KeepPlans::No);
  writeReport(request.place.format == "json"
                  ? renderFrontiers({{options.devices, shardsOf(options), frontier}}, "json")
                  : renderFrontier(frontier, request.place.format, card),
              request.place);
  return exitCodeOf(frontier.isPartial, "smaller budgets were not planned");
}

/// What is known of a file that has one batch only: whether that fits.
Error onlyOneBatch(MLIRContext &context, const CompileOptions &options, const FixedBatch &fixed,
                   Bytes budget) {
  StageTimer timer;
  ModelSteps model(context, options, timer);
  const std::shared_ptr<ModelStep> step = model.steps.at(askedVariant(context, options));
  BudgetPlanner &planner = step->planner();
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

/// How a step's time grows with the batch.
void printCurve(const std::vector<BatchPoint> &curve, int64_t parts) {
  absl::PrintF("  %10s %16s %12s %14s %12s\n", "batch", "arena bytes", "step ms", "us per sample",
               "recomputed");
  for (const BatchPoint &point : curve) {
    const int64_t samples = point.batch * parts;
    const auto nanoseconds = static_cast<double>(point.time);
    absl::PrintF("  %10d %16d %12.3f %14.3f %10.2f %%\n", samples, point.arenaBytes,
                 nanoseconds / 1e6, nanoseconds / 1e3 / static_cast<double>(samples),
                 100 * point.extraTime);
  }
}

void printLargest(const BatchAnswer &answer, Bytes budget, double mostExtraTime, int64_t parts,
                  const char *ways) {
  absl::PrintF("largest batch: %d\n", answer.batch * parts);
  if (parts > 1)
    absl::PrintF("  in %d parts of %d (--accumulate=%d)\n", parts, answer.batch, parts);
  absl::PrintF("  budget  %s\n  arena   %s, %.2f %% more time for %s\n", formatBytesExact(budget),
               formatBytesExact(answer.arenaBytes), 100 * answer.extraTime, ways);
  const int64_t next = answer.batch + 1, firstNot = answer.firstNot;
  if (firstNot == 0 || firstNot > next)
    absl::PrintF("  batches above %d%s were not tried%s\n", answer.batch * parts,
                 firstNot == 0 ? "" : absl::StrCat(" and below ", firstNot * parts),
                 firstNot == 0 && !answer.isPartial ? " (--limit)" : "");
  if (firstNot > 0 && firstNot != answer.provenAbove.value_or(0))
    absl::PrintF(
        "  for batch %d no plan was found within the budget that takes at most %.4g %% more time "
        "(--extra-time)\n",
        firstNot * parts, 100 * mostExtraTime);
  if (answer.provenAbove)
    absl::PrintF("  batch %d is proven not to fit: every schedule takes at least %s\n",
                 *answer.provenAbove * parts, formatBytesExact(answer.provenBytes));
  printCurve(answer.curve, parts);
}

/// Remarks and warnings are those of every batch: they are said once.
class SaidOnce {
public:
  explicit SaidOnce(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          const bool isNew = said.insert(withoutNumbers(diagnostic.str())).second;
          return success(diagnostic.getSeverity() != DiagnosticSeverity::Error && !isNew);
        }) {}

private:
  /// Which the batch changes.
  static std::string withoutNumbers(std::string text) {
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
  }

  std::set<std::string> said;
  ScopedDiagnosticHandler handler;
};

/// The time that recomputation may add to a batch's step, as a share of it.
double mostExtraTime(const MaxBatchRequest &request) {
  if (request.extraTime && request.options.recompute)
    throw Error::badInput(
        "--extra-time and --recompute both limit what is computed again; give one of them");
  if (request.options.recompute)
    return request.options.recompute->share;
  return request.extraTime.value_or(kMostExtraTime);
}

/// Throws Error(BadInput) where the flags, which have been finished, ask for no batch that can be found, and Error(Infeasible) where
/// nothing is left of the budget: what it leaves to the arena.
Bytes arenaBudgetOf(const CompileOptions &options) {
  if (!options.memoryBudget || !options.memoryBudget->bytes)
    throw Error::badInput("stowage max-batch needs --memory-budget in bytes, e.g. "
                          "--memory-budget=2GiB, or a card: --card=24GiB");
  if (!options.profile.empty())
    throw Error::badInput(
        "stowage max-batch weighs every batch by a data sheet; leave out --profile");
  if (options.import.batch)
    throw Error::badInput("stowage max-batch finds the batch; leave out --batch");
  if (options.accumulate == kAny)
    throw Error::badInput(
        "stowage max-batch finds the batch for a number of parts that is given; say "
        "how many: --accumulate=K");
  if (options.budgetCovers == BudgetCovers::Process && !options.outside)
    throw Error::badInput(
        "stowage max-batch with --budget-covers=process needs --outside=SIZE, what "
        "the process takes beside the arena");
  const bool coversProcess = options.budgetCovers == BudgetCovers::Process;
  const Bytes beside = (coversProcess ? *options.outside : 0) + reservedOf(options);
  const Bytes budget = *options.memoryBudget->bytes - beside;
  if (budget < 0)
    throw Error::infeasible("STOW1001: " +
                            coveredBeside(options, *options.memoryBudget->bytes, beside));
  return budget;
}

/// The largest batch of finished flags.
BatchAnswer largestBatch(const CompileOptions &options, Bytes budget, double extraTime,
                         int64_t limit) {
  MLIRContext context;
  prepareContext(context);
  if (const std::optional<FixedBatch> fixed = findFixedBatch(context, options))
    throw onlyOneBatch(context, options, *fixed, budget);
  const SaidOnce once(context);
  const Interruptible interruptible;
  StageTimer timer;
  ModelSteps model(context, options, timer);
  BatchAnswer answer = findMaxBatch({model.steps, variantOf(options), budget, extraTime}, limit);
  endProgress();
  reportRefusals(answer.refusals, std::nullopt);
  if (answer.batch == 0 && answer.isPartial)
    throw Interrupted();
  return answer;
}

/// One way to run the step, and the largest batch of it.
struct LargestOfDevices {
  int64_t devices = 1;
  const char *shards = "";
  Bytes budget = 0;
  BatchAnswer answer;
};

std::string describeLargest(const std::vector<LargestOfDevices> &all, double extraTime) {
  std::string text = absl::StrFormat("%8s  %-12s %14s %14s %16s %12s %14s %12s\n", "devices",
                                     "in shards", "samples a step", "of a rank", "arena bytes",
                                     "step ms", "us per sample", "recomputed");
  for (const auto &[devices, shards, budget, answer] : all) {
    absl::StrAppendFormat(&text, "%8d  %-12s ", devices, shards);
    if (answer.batch == 0) {
      absl::StrAppend(&text, answer.isTooSlow
                                 ? absl::StrFormat("one sample fits for more than %.4g %% more "
                                                   "time alone (--extra-time)\n",
                                                   100 * extraTime)
                                 : "not even one sample fits " + formatBytesExact(budget) +
                                       "; the smallest arena found for it is " +
                                       formatBytesExact(answer.leastBytes) + "\n");
      continue;
    }
    const BatchPoint &point = answer.curve.back();
    const int64_t samples = answer.batch * devices;
    const auto nanoseconds = static_cast<double>(point.time);
    absl::StrAppendFormat(&text, "%14d %14d %16d %12.3f %14.3f %10.2f %%\n", samples, answer.batch,
                          answer.arenaBytes, nanoseconds / 1e6,
                          nanoseconds / 1e3 / static_cast<double>(samples), 100 * answer.extraTime);
  }
  return text;
}

/// A record for each way; what is not known is null.
std::string largestAsJson(const std::vector<LargestOfDevices> &all) {
  Json records = Json::array();
  for (const auto &[devices, shards, budget, answer] : all) {
    Json record;
    record["devices"] = devices;
    record["shard_state"] = shards;
    record["budget_bytes"] = budget;
    record["batch"] = answer.batch;
    record["batch_of_all"] = answer.batch * devices;
    const bool fits = answer.batch > 0;
    record["arena_bytes"] = fits ? Json(answer.arenaBytes) : Json();
    record["step_seconds"] =
        fits ? Json(static_cast<double>(answer.curve.back().time) * 1e-9) : Json();
    record["extra_time_fraction"] = fits ? Json(answer.extraTime) : Json();
    record["smallest_bytes"] = fits || answer.isTooSlow ? Json() : Json(answer.leastBytes);
    record["proven_not_to_fit"] = answer.provenAbove ? Json(*answer.provenAbove) : Json();
    records.push_back(std::move(record));
  }
  return dumpJsonLines(records) + "\n";
}

/// Of several numbers of devices, or as JSON: a row for each way, also of those that have no batch.
int compareLargest(const MaxBatchRequest &request, double extraTime) {
  CompileOptions asked = request.options;
  if (asked.deviceCounts.empty())
    asked.deviceCounts = {asked.devices};
  std::vector<LargestOfDevices> all;
  for (CompileOptions &options : deviceCases(asked)) {
    options.shapes.clear();
    const Bytes budget = arenaBudgetOf(options);
    all.push_back({options.devices, shardsOf(options), budget,
                   largestBatch(options, budget, extraTime, request.limit / options.accumulate)});
    if (all.back().answer.isPartial)
      break;
  }
  writeReport(request.place.format == "json" ? largestAsJson(all) : describeLargest(all, extraTime),
              request.place);
  return exitCodeOf(all.back().answer.isPartial, "larger batches may fit");
}

int maxBatch(MaxBatchRequest &request) {
  CompileOptions &options = request.options;
  const double extraTime = mostExtraTime(request);
  options.recompute.reset();
  options.budgetIsCard |= !options.memoryBudget && cardOf(options);
  if (!options.deviceCounts.empty() || request.place.format == "json")
    return compareLargest(request, extraTime);
  finishOptions(options);
  options.shapes.clear(); // of several shapes the largest decides
  const Bytes budget = arenaBudgetOf(options);
  // What is asked about is one of the batches that a step has.
  const int64_t parts = options.accumulate;
  const BatchAnswer answer = largestBatch(options, budget, extraTime, request.limit / parts);
  if (answer.batch == 0 && answer.isTooSlow)
    throw Error::infeasible(absl::StrFormat("STOW1001: a batch of %d fits %s for more than %.4g %% "
                                            "more time alone; --extra-time=P%% allows more",
                                            parts, formatBytesExact(budget), 100 * extraTime));
  if (answer.batch == 0)
    throw Error::infeasible(
        absl::StrCat("STOW1001: not even a batch of ", parts, " fits ", formatBytesExact(budget),
                     "; the smallest arena found for it is ", formatBytesExact(answer.leastBytes)));
  printLargest(answer, budget, extraTime, parts,
               options.offload.isAsked() ? "recomputation and copies" : "recomputation");
  return exitCodeOf(answer.isPartial, "larger batches may fit");
}

} // namespace

int exitCodeOf(bool isPartial, const char *missing) {
  if (!isPartial)
    return 0;
  absl::FPrintF(stderr, "warning: interrupted: this is the best so far, %s\n", missing);
  return kInterruptedCode;
}

Run frontierCommand(CommandLine &line) {
  auto request = std::make_shared<FrontierRequest>();
  addReportFlags(line, request->place, frontierFormats());
  line.value("step", "PERCENT", "distance of the budgets that are planned (default: 5)",
             [request](const std::string &text) { request->step = parseStep(text); });
  addCompileFlags(line, request->options);
  addCardFlag(line, request->options);
  addModelWord(line, request->options);
  return [request] { return frontier(*request); };
}

Run maxBatchCommand(CommandLine &line) {
  auto request = std::make_shared<MaxBatchRequest>();
  addReportFlags(line, request->place, {"text", "json"});
  line.value("extra-time", "P%",
             "the most time that recomputation may add to a step, e.g. 20% (default: 50%, so that "
             "a sample takes at "
             "most 1.5 times as long)",
             [request](const std::string &text) { request->extraTime = parseShare(text); });
  line.value("limit", "N", "the largest batch tried (default: 1048576)",
             [request](const std::string &text) { request->limit = parseCount("limit", text, 1); });
  addCardFlag(line, request->options);
  addCompileFlags(line, request->options);
  addModelWord(line, request->options);
  return [request] { return maxBatch(*request); };
}

} // namespace stow
