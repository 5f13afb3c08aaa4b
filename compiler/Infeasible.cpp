#include "compiler/Infeasible.h"

#include "codegen/Backend.h"
#include "compiler/StepNotes.h"
#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "passes/fission/RowChains.h"
#include "passes/memory/DescribePlan.h"
#include "passes/plan/MaxBatch.h"
#include "passes/plan/QuickPlacement.h"
#include "passes/plan/TimedPlan.h"
#include "passes/solvers/schedule/bounds/LaneBound.h"
#include "runtime/format/PlanReport.h"
#include "runtime/report/Remedies.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <algorithm>
#include <limits>
#include <set>

namespace stow {
namespace {

constexpr size_t kRows = 20;

/// The buffers that are live at the peak, largest first.
std::string liveSet(const Plan &plan) {
  std::optional<size_t> which = peakGraph(plan);
  if (!which)
    return "";
  const GraphPlan &graph = plan.graphs[*which];
  std::vector<const PlannedBuffer *> live = liveAtPeak(plan, graph);
  std::string text =
      absl::StrCat("live at the peak, command ", graph.peakStep, " of \"", graph.name(), "\" (",
                   graph.steps[graph.peakStep].name, "), ", live.size(), " buffers, ",
                   formatBytesExact(fullestBytes(plan, graph)), ":\n");
  Bytes rest = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    if (i >= kRows) {
      rest += live[i]->size;
      continue;
    }
    absl::StrAppendFormat(&text, "  %s  %s  %s  %s %s%s\n", formatBytesExact(live[i]->size),
                          nameOf(live[i]->kind), live[i]->name, absl::StrJoin(live[i]->shape, "x"),
                          nameOf(live[i]->dtype),
                          live[i]->source.empty() ? "" : "  from " + live[i]->source);
  }
  if (live.size() > kRows)
    absl::StrAppend(&text, "  ", formatBytesExact(rest), "  in ", live.size() - kRows,
                    " more buffers\n");
  return text;
}

/// What is said of steps that are only looked at is left out.
class Silent {
public:
  explicit Silent(const ModelStep &step)
      : handler(step.module().getContext(), [](mlir::Diagnostic &) { return mlir::success(); }) {}

private:
  mlir::ScopedDiagnosticHandler handler;
};

/// The variant of which `step` is the one whose types were chosen.
StepVariant askedAs(const ModelStep &step, const CompileOptions &options) {
  StepVariant asked = step.variant;
  asked.precision = options.precision;
  asked.wideNodes.clear();
  return asked;
}

/// The smallest arena of the same step in f32; absent where it is that one, or where the device has no way to run it.
std::optional<Bytes> smallestInF32(ModelSteps &steps, const ModelStep &step) {
  const Silent silent(step);
  const std::shared_ptr<ModelStep> wide = steps.steps.inF32(step);
  return wide ? std::optional(wide->planner().smallest().arenaBytes) : std::nullopt;
}

/// A batch that fits, and the whole one in parts of at most its size, or why none is named.
struct BatchRemedy {
  std::vector<Remedy> remedies;
  std::string missing; ///< empty: the search was made and found none, or none is needed
};

constexpr const char *kNotTried = "a smaller batch was not tried: ";

BatchRemedy smallerBatch(ModelSteps &steps, const ModelStep &step, const StepChoice &smallest,
                         const Plan &plan, const CompileOptions &options, Bytes budget) {
  const int64_t batches = step.variant.batches, samples = batchOf(plan), batch = samples / batches;
  if (batch < 2 || budget <= plan.persistentBytes)
    return {};
  const Bytes growing = bytesThatGrow(plan, samples), fixed = plan.arenaBytes - growing;
  if (growing == 0)
    return {};
  const std::string own = std::to_string(samples);
  if (!options.modelPath.ends_with(".onnx"))
    return {{},
            kNotTried + ("the shapes of an .mlir model are its own; write it for a "
                         "smaller batch than " +
                         own)};
  // Scratch may be less with a single sample, which is tried where the rest takes too much.
  const double share = static_cast<double>(budget - fixed) / static_cast<double>(growing);
  const auto guess = std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(batch)));
  BatchAnswer found;
  try {
    const Silent silent(step);
    found = findSomeBatch({steps.steps, askedAs(step, options), budget}, std::min(guess, batch - 1),
                          {batch, &smallest});
  } catch (const Error &error) {
    // The budget that cannot be met is the answer, whatever becomes of another batch.
    if (error.kind() != ErrorKind::BadInput)
      return {{}, kNotTried + std::string(error.what())};
    return {{},
            kNotTried + ("the model does not import at another batch than its own " + own +
                         "; export it with a dynamic batch (dynamic_shapes, or "
                         "dynamic_axes), or at a smaller one")};
  }
  if (found.batch == 0)
    return {};
  const Bytes gain = plan.arenaBytes - found.arenaBytes;
  BatchRemedy remedy;
  remedy.remedies.push_back(
      {gain,
       absl::StrCat("a smaller batch, which fits: --batch=", found.batch * batches, " instead of ",
                    own, " (stowage max-batch finds the largest)"),
       Changes::Results});
  int64_t parts = (batch + found.batch - 1) / found.batch;
  while (batch % parts != 0)
    ++parts;
  if (std::optional<Remedy> inParts = batchInParts(plan, parts, gain))
    remedy.remedies.push_back(std::move(*inParts));
  return remedy;
}

/// The call with the most scratch at the peak on fewer threads, half of them and half again until the
/// budget fits: libraries sum a weight's gradient in a copy for each. Nothing where it is not a tenth
/// of the arena.
std::optional<Remedy> fewerThreads(const StepChoice &smallest, const Plan &plan,
                                   const CompileOptions &options, Bytes budget) {
  const Bytes scratch = scratchAtPeak(plan);
  if (scratch * 10 < plan.arenaBytes)
    return std::nullopt;
  mlir::Operation *call = nullptr;
  smallest.placed.get()->walk([&](mlir::Operation *op) {
    if (auto bytes = op->getAttrOfType<mlir::IntegerAttr>(kWorkspaceAttr);
        bytes && bytes.getInt() == scratch)
      call = op;
  });
  if (!call)
    return std::nullopt;
  const llvm::SmallVector<bool> fixed(call->getNumOperands() + call->getNumResults(), false);
  std::optional<Remedy> remedy;
  CompileOptions fewer = options;
  for (fewer.threads /= 2; fewer.threads > 0; fewer.threads /= 2) {
    const std::unique_ptr<Backend> backend = chooseBackend(fewer);
    auto needs = backend->target().query(call, fixed);
    if (failed(needs) || needs->workspaceBytes >= scratch)
      break;
    const Bytes gain = scratch - needs->workspaceBytes;
    remedy = {gain,
              absl::StrCat("fewer threads: --threads=", fewer.threads, " instead of ",
                           options.threads,
                           " (scratch at the peak alone; the rest is planned anew)"),
              backend->sumsDependOnThreads() ? Changes::LastBits : Changes::Nothing};
    if (plan.arenaBytes - gain <= budget)
      break;
  }
  return remedy;
}

/// Chains that run in chunks of rows: how they are found, and the flag for it.
struct Chunks {
  std::vector<RowChain> (*find)(mlir::func::FuncOp graph);
  int64_t StepVariant::*count;
  const char *flag, *what;
};

constexpr Chunks kLossChunks = {findHeads, &StepVariant::lossChunks, "--loss-chunks",
                                "the head and its loss in chunks of rows"};
constexpr Chunks kRowChunks = {findChains, &StepVariant::rowChunks, "--row-chunks",
                               "hidden layers and convolutions in chunks of rows"};

/// True where the largest value at the peak is of a node whose chain `chunks` finds in `step`.
bool isChainAtPeak(mlir::ModuleOp step, const Plan &plan, const Chunks &chunks) {
  const std::optional<size_t> which = peakGraph(plan);
  if (!which)
    return false;
  const std::vector<const PlannedBuffer *> live = liveAtPeak(plan, plan.graphs[*which]);
  const auto largest = llvm::find_if(live, [](const PlannedBuffer *buffer) {
    return buffer->kind == BufferKind::Activation || buffer->kind == BufferKind::Gradient;
  });
  if (largest == live.end())
    return false;
  for (auto graph : step.getOps<mlir::func::FuncOp>())
    if (isStepGraph(graph))
      for (const RowChain &chain : chunks.find(graph))
        if (llvm::any_of(chain.ops, [&](mlir::Operation *op) {
              return sourcePlaceOf(op->getLoc()) == (*largest)->source;
            }))
          return true;
  return false;
}

/// The step with chains in chunks, as it takes least. Nothing where it does not fit and gains less than a hundredth.
std::optional<Remedy> inChunks(ModelSteps &steps, StepVariant chunked, const Plan &plan,
                               Bytes budget, const Chunks &chunks) {
  constexpr int64_t count = 8;
  chunked.*chunks.count = count;
  const Bytes worth = std::max(budget, plan.arenaBytes - plan.arenaBytes / 100);
  const Bytes arenaBytes = leastPlacement(worth, *steps.steps.at(chunked, Times::Sheet));
  if (arenaBytes > worth)
    return std::nullopt;
  const bool fits = arenaBytes <= budget;
  return Remedy{
      plan.arenaBytes - arenaBytes,
      absl::StrCat(chunks.what, fits ? ", which fits: " : ": ", chunks.flag, "=", count,
                   fits ? absl::StrCat(" (", chunks.flag, "=auto finds the fastest)") : ""),
      Changes::LastBits};
}

/// The same for each kind of chain that is whole and at the peak.
std::vector<Remedy> inChunks(ModelSteps &steps, const ModelStep &step, const Plan &plan,
                             const CompileOptions &options, Bytes budget) {
  const Silent silent(step);
  const mlir::OwningOpRef<mlir::ModuleOp> form = steps.form(step.variant, Form::Step);
  std::vector<Remedy> found;
  for (const Chunks &chunks : {kLossChunks, kRowChunks})
    if (step.variant.*chunks.count == 1 && isChainAtPeak(*form, plan, chunks))
      if (auto chunked = inChunks(steps, askedAs(step, options), plan, budget, chunks))
        found.push_back(std::move(*chunked));
  return found;
}

/// The step on its devices with the optimizer's state in shards, as it takes least. Nothing where it gains less than a hundredth.
std::optional<Remedy> inShards(ModelSteps &steps, const ModelStep &step, const Plan &plan,
                               const CompileOptions &options, Bytes budget) {
  StepVariant sharded = askedAs(step, options);
  if (options.devices == 1 || sharded.shardPercent != 0 || sharded.eightBitPercent != 0)
    return std::nullopt;
  const Silent silent(step);
  sharded.shardPercent = 100;
  const Bytes worth = std::max(budget, plan.arenaBytes - plan.arenaBytes / 100);
  const Bytes arenaBytes = leastPlacement(worth, *steps.steps.at(sharded, Times::Sheet));
  if (arenaBytes > worth)
    return std::nullopt;
  return Remedy{plan.arenaBytes - arenaBytes,
                absl::StrCat("a part of the optimizer's state on each of ", options.devices,
                             " devices", arenaBytes <= budget ? ", which fits" : "",
                             ": --shard-state=optimizer"),
                Changes::Nothing};
}

/// What of the state lies in shards, from whole state to weights.
struct Sharding {
  int64_t statePercent, weightPercent;
  const char *words, *flag;
};

constexpr Sharding kShardings[] = {
    {0, 0, "", ""},
    {100, 0, ", the optimizer's state in shards", " --shard-state=optimizer"},
    {100, 100, ", weights and the optimizer's state in shards", " --shard-state=parameters"}};

/// The bytes of a kind of state.
Bytes bytesOf(const Plan &plan, BufferKind kind) {
  Bytes bytes = 0;
  std::set<std::string> known; // of several graphs
  for (const GraphPlan &graph : plan.graphs)
    for (const PlannedBuffer &buffer : graph.buffers)
      if (buffer.kind == kind && known.insert(buffer.name).second)
        bytes += buffer.size;
  return bytes;
}

/// The samples of a step over more devices than it has, as few as fit, with what of the state in shards. An estimate says which
/// number to plan for, twice at most; only what a plan of its step fits is named.
class MoreDevices {
public:
  MoreDevices(ModelSteps &steps, const ModelStep &step, const Plan &plan,
              const CompileOptions &options, Bytes budget)
      : steps(steps), step(step), plan(plan), options(options), budget(budget),
        samples(batchOf(plan)), growing(bytesThatGrow(plan, samples)) {}

  /// Where `budget` is what a process has: less what it takes to be connected to others.
  static Bytes budgetOfRank(const CompileOptions &options, Bytes budget) {
    return options.devices > 1
               ? budget
               : budget - chooseBackend(options)->outsideOfRanks().bytes.value_or(0);
  }

  std::vector<Remedy> remedies() {
    if (!flagAgainstDevices(options).empty() || !options.modelPath.ends_with(".onnx") ||
        samples < 1 || step.variant.batches != 1)
      return {};
    const Silent silent(step);
    std::vector<Remedy> found;
    int64_t most = kMost;
    for (const Sharding &sharding : kShardings) {
      if (!isMore(sharding))
        continue;
      try {
        if (const int64_t devices = fewest(sharding, most)) {
          found.push_back(remedyOf(sharding, devices));
          most = devices / 2; // in shards, on fewer than with less in shards
        }
      } catch (const Error &error) {
        if (error.kind() != ErrorKind::BadInput)
          throw;
        return found; // at another batch there is no such step, which is said of a smaller one
      }
    }
    return found;
  }

private:
  static constexpr int64_t kMost = 1024;

  /// Not less in shards than is asked for; with several devices, state in shards on as many is a remedy of its own.
  bool isMore(const Sharding &sharding) const {
    return sharding.statePercent >= step.variant.shardPercent.value_or(0) &&
           sharding.weightPercent >= step.variant.weightShardPercent.value_or(0) &&
           (sharding.statePercent == 0 || step.variant.eightBitPercent == 0);
  }

  int64_t samplesOfAll() const { return samples * options.devices; }

  /// Of a device: its share of the samples, where they can be shared; else as many as the step has.
  int64_t samplesOn(int64_t devices) const {
    return samplesOfAll() % devices == 0 ? samplesOfAll() / devices : samples;
  }

  /// What no plan goes far below.
  double estimate(const Sharding &sharding, int64_t devices) const {
    const auto saved = [&](int64_t percent, BufferKind kind) {
      const double left = static_cast<double>(options.devices) / static_cast<double>(devices);
      return percent == 0 ? 0 : static_cast<double>(bytesOf(plan, kind)) * (1 - left);
    };
    const double gone = 1 - static_cast<double>(samplesOn(devices)) / static_cast<double>(samples);
    return static_cast<double>(plan.arenaBytes) - gone * static_cast<double>(growing) -
           saved(sharding.statePercent, BufferKind::Optimizer) -
           saved(sharding.weightPercent, BufferKind::Parameter);
  }

  /// The least number of devices, a power of two times those of the step, with a plan that fits; 0: none is known.
  int64_t fewest(const Sharding &sharding, int64_t most) {
    int tries = 0;
    for (int64_t devices = 2 * options.devices; devices <= most && tries < 2; devices *= 2) {
      if (estimate(sharding, devices) > static_cast<double>(budget))
        continue;
      ++tries;
      StepVariant variant = askedAs(step, options);
      variant.devices = devices;
      variant.samples = samplesOn(devices);
      variant.shardPercent = sharding.statePercent;
      variant.weightShardPercent = sharding.weightPercent;
      arenaBytes = leastPlacement(budget, *steps.steps.at(variant, Times::Sheet));
      if (arenaBytes <= budget)
        return devices;
    }
    return 0;
  }

  /// Sums over samples are taken in another order; batch normalizations see fewer samples, and where these cannot be shared a step has more.
  Remedy remedyOf(const Sharding &sharding, int64_t devices) const {
    const int64_t own = samplesOn(devices), all = own * devices;
    const bool isSameStep = all == samplesOfAll() && bytesOf(plan, BufferKind::Statistic) == 0;
    return {plan.arenaBytes - arenaBytes,
            absl::StrCat(devices, " devices, each with ", own, " of the ", all,
                         " samples of a step", sharding.words, ", which fits: --devices=", devices,
                         " --batch=", own, sharding.flag),
            isSameStep ? Changes::LastBits : Changes::Results};
  }

  ModelSteps &steps;
  const ModelStep &step;
  const Plan &plan;
  const CompileOptions &options;
  const Bytes budget;
  const int64_t samples;
  const Bytes growing;
  Bytes arenaBytes = 0; ///< of the last one that was planned
};

/// No plan of the step in which values travel to slow memory takes less, as far as its schedule problem tells: what its largest op
/// reads and writes, or its evaluation takes. Where joins are placed anew for every order it is an estimate, and is said to be one.
Bytes leastWithCopies(const schedule::Problem &problem, const Plan &plan) {
  const schedule::Graph graph(problem);
  schedule::CutBound cuts(graph);
  schedule::Lanes lanes;
  lanes.slowBytes = std::numeric_limits<Bytes>::max() / 4; // as much as is asked for
  Bytes least = plan.persistentBytes - problem.pinnedBytes() +
                schedule::LaneBound(graph, cuts, lanes).peakBound();
  for (const GraphPlan &other : plan.graphs)
    if (other.role == GraphRole::Eval)
      least = std::max(least, fullestBytes(plan, other));
  return least;
}

/// How slow memory is spoken of.
struct SlowWords {
  const char *flag, *place, *preposition;
};

/// That of the target, if it has one.
std::optional<SlowWords> slowWordsOf(const CompileOptions &options) {
  if (options.devices > 1)
    return std::nullopt;
  if (whyNot(options.target, Feature::FolderMemory).empty())
    return SlowWords{"--offload=FOLDER", "a disk", "on"};
  if (whyNot(options.target, Feature::HostMemory).empty())
    return SlowWords{"--offload=host", "memory of the host", "in"};
  return std::nullopt;
}

/// Slow memory for values, priced by the bound alone: a plan with it would take a measured disk and as long as this one took. Nothing
/// where it gains less than a hundredth.
std::optional<Remedy> valuesInSlowMemory(BudgetPlanner &planner, const Plan &plan, Bytes budget,
                                         const SlowWords &words) {
  const Bytes least = leastWithCopies(planner.problem(), plan), gain = plan.arenaBytes - least;
  if (gain * 100 < plan.arenaBytes)
    return std::nullopt;
  return Remedy{
      gain,
      absl::StrCat("values that travel to ", words.place, " and back: ", words.flag, " (",
                   planner.placesJoinsAnew()
                       ? "an estimate, since joins are placed anew: such plans take about "
                       : "at most: the bound of such plans is ",
                   formatBytesExact(least),
                   least <= budget ? ", within the budget" : ", above the budget", ")"),
      Changes::Nothing};
}

/// Slow memory for state: all that may lie there but the largest tensor, which is in the arena while it is used.
std::optional<Remedy> stateInSlowMemory(const Plan &plan, const SlowWords &words) {
  Bytes all = 0, largest = 0;
  std::set<std::string> known; // of several graphs
  for (const GraphPlan &graph : plan.graphs)
    for (const PlannedBuffer &buffer : graph.buffers) {
      const bool mayTravel =
          buffer.size >= kSlowAlignment &&
          (buffer.kind == BufferKind::Frozen || buffer.kind == BufferKind::Parameter ||
           (buffer.kind == BufferKind::Optimizer && buffer.dtype == DType::F32));
      if (!mayTravel || !known.insert(buffer.name).second)
        continue;
      all += buffer.size;
      largest = std::max(largest, buffer.size);
    }
  if ((all - largest) * 100 < plan.arenaBytes)
    return std::nullopt;
  return Remedy{all - largest,
                absl::StrCat("the optimizer's state and weights ", words.preposition, " ",
                             words.place, ": ", words.flag, " --offload-state=all (all but the ",
                             "largest tensor; the rest is planned anew)"),
                Changes::Nothing};
}

/// What would lower the arena, by what it gains; `inF32` is the smallest arena in f32, where the step is in 16 bits.
std::vector<Remedy> remedies(ModelSteps &steps, ModelStep &step, const Plan &plan,
                             const CompileOptions &options, Bytes budget,
                             std::optional<Bytes> inF32, const std::vector<Remedy> &batch,
                             Bytes budgetOfRank) {
  const StepChoice &smallest = step.planner().smallest();
  std::vector<Remedy> list = stateRemedies(plan, options.optimizer.text);
  for (Remedy &chunked : inChunks(steps, step, plan, options, budget))
    list.push_back(std::move(chunked));
  if (std::optional<Remedy> fewer = fewerThreads(smallest, plan, options, budget))
    list.push_back(std::move(*fewer));
  if (std::optional<Remedy> sharded = inShards(steps, step, plan, options, budget))
    list.push_back(std::move(*sharded));
  for (Remedy &shared : MoreDevices(steps, step, plan, options, budgetOfRank).remedies())
    list.push_back(std::move(shared));
  if (std::optional<Remedy> narrow = sixteenBits(plan);
      narrow && options.precision == Precision::F32)
    list.push_back(std::move(*narrow));
  const std::optional<SlowWords> slow = slowWordsOf(options);
  if (slow && !options.offload.isAsked())
    if (auto values = valuesInSlowMemory(step.planner(), plan, budget, *slow))
      list.push_back(std::move(*values));
  if (slow && options.offload.statePercent == 0)
    if (auto state = stateInSlowMemory(plan, *slow))
      list.push_back(std::move(*state));
  if (inF32 && *inF32 < plan.arenaBytes)
    list.push_back({plan.arenaBytes - *inF32,
                    absl::StrCat("everything in 32 bits", *inF32 <= budget ? ", which fits" : "",
                                 ": --precision=f32"),
                    Changes::Results});
  list.insert(list.end(), batch.begin(), batch.end());
  sortRemedies(list);
  return list;
}

/// ", in 8.9 % more time": by the times that plans are weighed with.
std::string inMoreTime(const Plan &plan, const Plan &now) {
  if (!(plan.stepSeconds > 0 && now.stepSeconds > 0))
    return "";
  return absl::StrFormat(", in %.1f %% more time",
                         100 * std::max(plan.stepSeconds / now.stepSeconds - 1, 0.0));
}

} // namespace

Error infeasible(ModelSteps &steps, ModelStep &step, const CompileOptions &options, Bytes budget,
                 Bytes beside) {
  BudgetPlanner &planner = step.planner();
  const StepChoice &smallest = planner.smallest();
  Plan plan = describePlan(*smallest.placed);
  std::string text = "STOW1001: the step does not fit the memory budget\n";
  text += "  budget               " + formatBytesExact(budget) + "\n";
  text += "  smallest achievable  " + formatBytesExact(smallest.arenaBytes) + "\n";
  const std::optional<Bytes> inF32 = smallestInF32(steps, step);
  if (inF32)
    text += "  smallest in f32      " + formatBytesExact(*inF32) + "\n";
  text += "  proven lower bound   " + formatBytesExact(planner.lowerBound()) + "\n";
  text += "  without recompute    " + formatBytesExact(planner.keepAll().arenaBytes) +
          (planner.problem().hasLaneOps() ? ", where each copy of state is waited for" : "") + "\n";
  text += "  of which state       " + formatBytesExact(plan.persistentBytes) + "\n";
  text += liveSet(plan);
  if (const std::string obstacle = planner.evaluationObstacle(budget); !obstacle.empty())
    text += obstacle + "\n";
  text += "remedies, by what they gain:\n";
  const BatchRemedy batch = smallerBatch(steps, step, smallest, plan, options, budget);
  const bool isOfProcess = options.budgetIsCard || options.budgetCovers == BudgetCovers::Process;
  std::vector<Remedy> list =
      remedies(steps, step, plan, options, budget, inF32, batch.remedies,
               isOfProcess ? MoreDevices::budgetOfRank(options, budget) : budget);
  list.push_back({plan.arenaBytes - budget,
                  absl::StrCat("a larger budget: --memory-budget=", plan.arenaBytes + beside),
                  Changes::Nothing});
  sortRemedies(list);
  text += renderRemedies(list);
  if (!batch.missing.empty())
    text += batch.missing + "\n";
  if (const std::string note = noteOf(step.leftWide, options); !note.empty())
    text += note + "\n";
  // A share of another step's arena is another budget, which its remedy need not fit.
  if (options.memoryBudget && options.memoryBudget->peakPercent)
    absl::StrAppend(&text,
                    "a remedy that changes the step needs the budget in bytes: --memory-budget=",
                    budget + beside, "\n");
  text.pop_back();
  return Error::infeasible(text);
}

void addRemedies(Verdict &verdict, ModelSteps &steps, ModelStep &step,
                 const CompileOptions &options, const Plan &plan) {
  const Bytes limit = verdict.usableBytes;
  auto stillTooMuch = [&](const Plan &least) {
    return absl::StrCat(formatBytesExact(least.arenaBytes), inMoreTime(least, plan), ", still ",
                        formatBytes(least.arenaBytes - limit), " too much");
  };
  // No plan is smaller than the state: looking for the smallest one, and for what other steps take, would be for figures alone.
  if (limit < plan.persistentBytes)
    if (const StepChoice quick = nearlySmallest(step); !quick.isRefused()) {
      const Plan least = planOf(*quick.placed, step.costs);
      verdict.remedies = remediesOf(least);
      for (Remedy &shared :
           MoreDevices(steps, step, least, options, MoreDevices::budgetOfRank(options, limit))
               .remedies())
        verdict.remedies.push_back(std::move(shared));
      sortRemedies(verdict.remedies);
      verdict.remediesOf =
          absl::StrCat("of a plan near the smallest of this step, ", stillTooMuch(least),
                       " (its state alone is ", formatBytes(least.persistentBytes), ")");
      return;
    }
  BudgetPlanner &planner = step.planner();
  const bool coversProcess = options.budgetCovers == BudgetCovers::Process;
  if (const std::optional<StepChoice> choice = planner.plan(limit)) {
    const Plan within = planOf(*choice->placed, step.costs);
    verdict.remedies = remediesOf(plan);
    verdict.remedies.push_back({plan.arenaBytes - within.arenaBytes,
                                absl::StrCat("values computed again, which fits: --memory-budget=",
                                             limit + options.reserve.value_or(0) +
                                                 (coversProcess ? verdict.processBytes : 0),
                                             inMoreTime(within, plan)),
                                Changes::Nothing});
    sortRemedies(verdict.remedies);
    return;
  }
  const StepChoice &smallest = planner.smallest();
  const Plan least = planOf(*smallest.placed, step.costs);
  BatchRemedy batch = smallerBatch(steps, step, smallest, least, options, limit);
  verdict.remedies = remedies(steps, step, least, options, limit, smallestInF32(steps, step),
                              batch.remedies, MoreDevices::budgetOfRank(options, limit));
  verdict.remediesOf = "of the smallest plan of this step, " + stillTooMuch(least);
  verdict.remedyMissing = batch.missing;
}

} // namespace stow
