#include "compiler/MixedPrecision.h"

#include "compiler/PartialEvaluation.h"
#include "ir/plan/schedule/Problem.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/StringExtras.h"

#include <absl/strings/str_cat.h>
#include <algorithm>

using namespace mlir;

namespace stow {
namespace {

std::string flagOf(const CompileOptions &options) {
  return options.precision == Precision::BF16 ? "--precision=bf16" : "--precision=fp16";
}

CompileOptions inF32(const CompileOptions &options) {
  CompileOptions wide = options;
  wide.precision = Precision::F32;
  wide.lossScale.clear();
  wide.keepWide.clear();
  return wide;
}

/// Of a plan that is only looked at: nothing is written beside it, and nobody reads what would make it fit.
CompileOptions unwritten(CompileOptions options) {
  options.profile.clear();
  options.saveProfilePath.clear();
  options.saveProblemPath.clear();
  options.remarksPath.clear();
  options.stopAfter = Form::Placed;
  options.refusesPlainly = true;
  return options;
}

CompileOptions keepingAll(const CompileOptions &options) {
  CompileOptions kept = unwritten(options);
  kept.memoryBudget.reset();
  kept.budgetCovers = BudgetCovers::Arena;
  kept.checkpoint = "none";
  kept.recompute.reset();
  return kept;
}

CompileOptions within(const CompileOptions &options, Bytes arena) {
  CompileOptions limited = options;
  limited.memoryBudget = {arena, {}};
  limited.budgetCovers = BudgetCovers::Arena;
  limited.checkpoint.clear();
  limited.recompute.reset();
  return limited;
}

/// A plan for a look, without its remarks; none where the budget is too small.
std::optional<Plan> tried(MLIRContext &context, const CompileOptions &options,
                          CompileStep compile) {
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  try {
    return std::move(compile(unwritten(options)).plan);
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::Infeasible)
      throw;
    return std::nullopt;
  }
}

/// Most nodes that are left in f32 one by one before the whole step is.
constexpr int kMostNodes = 8;

/// A pattern for --keep that one name matches.
std::string patternOf(llvm::StringRef node) {
  std::string pattern;
  for (const char c : node) {
    if (llvm::StringRef("*?[]{}\\").contains(c))
      pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// The node that runs where the arena is full.
std::string nodeAtPeak(const Plan &plan) {
  const auto graph = std::ranges::max_element(plan.graphs, {}, &GraphPlan::livePeakBytes);
  return graph->steps.empty()
             ? ""
             : llvm::StringRef(graph->steps[graph->peakStep].name).split(" of ").second.str();
}

/// `options` with nodes in f32: while the arena with everything kept is above `limit`, the node that runs
/// where it is full. None where no node is to blame, or leaving them in f32 does not help.
std::optional<CompileOptions> withNodesInF32(MLIRContext &context, const CompileOptions &options,
                                             Bytes limit, CompileStep compile) {
  CompileOptions kept = options;
  for (int i = 0; i <= kMostNodes; ++i) {
    const Plan plan = *tried(context, keepingAll(kept), compile);
    if (plan.arenaBytes <= limit)
      return i > 0 ? std::optional(kept) : std::nullopt;
    const std::string pattern = patternOf(nodeAtPeak(plan));
    if (pattern.empty() || llvm::is_contained(kept.keepWide, pattern))
      return std::nullopt;
    kept.keepWide.push_back(pattern);
  }
  return std::nullopt;
}

/// A step in f32, with a planner of its own.
class WideStep {
public:
  WideStep(MLIRContext &context, const CompileOptions &options, PrepareStep prepare)
      : options(unwritten(options)), backend(chooseBackend(options)) {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    prepared = prepare(this->options, *backend);
    BudgetOptions planning;
    planning.evaluation = evaluationParts(context, this->options, *backend);
    planner.emplace(*prepared, weighStep(*prepared, this->options, *backend), backend->target(),
                    std::move(planning));
  }

  /// The arena without a budget where it is below `bytes`, which a proof often rules out.
  std::optional<Bytes> arenaBelow(Bytes bytes) {
    Bytes arena = planner->keepAll().arenaBytes;
    const Allowance allowance = allowanceOf(options);
    if (options.checkpoint == "sqrt")
      arena = planner->checkpointed().arenaBytes;
    else if (arena >= bytes && allowance.share > 0 && planner->lowerBound() < bytes &&
             planner->extraTimeBound(bytes - 1) <= allowance.share)
      arena = planner->within(allowance).arenaBytes;
    return arena < bytes ? std::optional(arena) : std::nullopt;
  }

  Bytes arenaWithAllKept() const { return planner->keepAll().arenaBytes; }
  Bytes smallest() { return planner->smallest().arenaBytes; }

private:
  const CompileOptions options;
  std::unique_ptr<Backend> backend;
  OwningOpRef<ModuleOp> prepared;
  std::optional<BudgetPlanner> planner;
};

/// `options` in f32; none where the device has no way to run that.
std::optional<WideStep> wideStep(MLIRContext &context, const CompileOptions &options,
                                 PrepareStep prepare) {
  try {
    return std::optional<WideStep>(std::in_place, context, inF32(options), prepare);
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::BadInput)
      throw;
    return std::nullopt;
  }
}

/// "16 bits", and what makes them take much where they do.
std::string sixteenBits(const CompileOptions &options) {
  const bool waits = options.precision == Precision::F16 && options.lossScale != "delayed";
  return waits ? "16 bits, whose updates wait with --loss-scale=dynamic," : "16 bits";
}

/// The same step in f32.
Way inF32(const CompileOptions &options, const std::string &why) {
  return {inF32(options),
          absl::StrCat(flagOf(options), ": everything is stored and computed in f32, since ", why)};
}

/// The step with some nodes in f32, if that takes no more than f32 with everything kept.
std::optional<Way> partlyInF32(MLIRContext &context, const CompileOptions &options,
                               const std::string &why, const WideStep &wide, CompileStep compile) {
  const auto kept = withNodesInF32(context, options, wide.arenaWithAllKept(), compile);
  if (!kept)
    return std::nullopt;
  const auto nodes = llvm::ArrayRef(kept->keepWide).drop_front(options.keepWide.size());
  return Way{*kept,
             absl::StrCat(flagOf(options), ": ", llvm::join(nodes, ", "),
                          nodes.size() == 1 ? " runs in f32" : " run in f32", ", since ", why)};
}

CompiledPlan compileWay(const Way &way, CompileStep compile) {
  CompiledPlan result = compile(way.options);
  result.plan.notes.push_back(way.note);
  return result;
}

/// What fits where the step in 16 bits does not, by falling share of 16 bits.
std::vector<Way> waysBelow(MLIRContext &context, const CompileOptions &options,
                           const WideStep &wide, CompileStep compile) {
  const std::string why = sixteenBits(options) + " do not fit the budget";
  std::vector<Way> ways;
  if (auto partly = partlyInF32(context, options, why, wide, compile))
    ways.push_back(std::move(*partly));
  ways.push_back(inF32(options, why));
  return ways;
}

/// Where the budget has no room for the step in 16 bits.
CompiledPlan compileWithinBudget(MLIRContext &context, const CompileOptions &options,
                                 const Error &refusal, CompileStep compile, PrepareStep prepare) {
  CompileOptions limited = options;
  if (options.memoryBudget->peakPercent) // of the arena in 16 bits
    limited.memoryBudget = {budgetBytes(*options.memoryBudget,
                                        tried(context, keepingAll(options), compile)->arenaBytes),
                            {}};
  WideStep wide(context, inF32(limited), prepare);
  for (const Way &way : waysBelow(context, limited, wide, compile))
    if (tried(context, way.options, compile))
      return compileWay(way, compile);
  throw Error::infeasible(absl::StrCat(
      refusal.what(), "\nwith --precision=f32 it does not fit either: the smallest achievable is ",
      formatBytesExact(wide.smallest())));
}

/// True where nothing runs twice.
bool runsAllOnce(const Plan &plan) {
  return llvm::none_of(plan.graphs, [](const GraphPlan &graph) {
    return llvm::any_of(graph.buffers,
                        [](const PlannedBuffer &buffer) { return buffer.recomputed; });
  });
}

/// Where f32 takes `limit` bytes, and 16 bits `arena`, which is more: with some nodes in f32, or else all of it, unless
/// 16 bits take less time within `limit`.
Way leanerWay(MLIRContext &context, const CompileOptions &options, Bytes arena, Bytes limit,
              const WideStep &wide, CompileStep compile) {
  const bool mayRunAgain = options.checkpoint == "sqrt" || allowanceOf(options).share > 0;
  auto secondsOf = [&](const Way &way) -> std::optional<double> {
    const std::optional<Plan> plan = tried(context, way.options, compile);
    if (!plan || plan->arenaBytes > limit || !(mayRunAgain || runsAllOnce(*plan)))
      return std::nullopt;
    return plan->stepSeconds;
  };
  const std::string why = sixteenBits(options) + " take " + formatBytesExact(arena);
  std::optional<Way> best = partlyInF32(context, options, why, wide, compile);
  std::optional<double> seconds = best ? secondsOf(*best) : std::nullopt;
  if (!seconds) {
    best = inF32(options, why);
    seconds = secondsOf(*best);
  }
  Way limited = {within(options, limit),
                 absl::StrCat(flagOf(options), ": within the ", formatBytesExact(limit),
                              " that f32 takes, where the fastest plan in 16 bits takes ",
                              formatBytesExact(arena))};
  const std::optional<double> limitedSeconds = secondsOf(limited);
  return limitedSeconds && limitedSeconds < seconds ? std::move(limited) : std::move(*best);
}

} // namespace

std::vector<Way> waysInF32(MLIRContext &context, const CompileOptions &options, CompileStep compile,
                           PrepareStep prepare) {
  const std::optional<WideStep> wide = wideStep(context, options, prepare);
  return wide ? waysBelow(context, options, *wide, compile) : std::vector<Way>();
}

CompiledPlan compileMixed(MLIRContext &context, const CompileOptions &options, CompileStep compile,
                          PrepareStep prepare) {
  CompiledPlan narrow;
  try {
    narrow = compile(options);
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::Infeasible)
      throw;
    return compileWithinBudget(context, options, error, compile, prepare);
  }
  if (options.memoryBudget || options.stopAfter < Form::Ordered)
    return narrow;
  const Bytes arena = options.stopAfter == Form::Ordered
                          ? tried(context, options, compile)->arenaBytes
                          : narrow.plan.arenaBytes;
  std::optional<WideStep> wide = wideStep(context, options, prepare);
  if (!wide)
    return narrow;
  const std::optional<Bytes> less = wide->arenaBelow(arena);
  return less ? compileWay(leanerWay(context, options, arena, *less, *wide, compile), compile)
              : std::move(narrow);
}

} // namespace stow
