#include "compiler/Accumulation.h"

#include "compiler/FixedBatch.h"
#include "ir/StepGraphs.h"
#include "passes/plan/Budget.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

using namespace mlir;

namespace stow {
namespace {

std::string flagOf(int64_t batches) { return absl::StrCat("--accumulate=", batches); }

std::string partsOf(int64_t batches, int64_t batch) {
  return batches == 1 ? absl::StrCat("one batch of ", batch)
                      : absl::StrCat(batches, " batches of ", batch / batches);
}

/// Samples of a step: --batch, or what the file has.
int64_t samplesPerStep(MLIRContext &context, const CompileOptions &options) {
  if (!options.modelPath.ends_with(".onnx"))
    throw Error::badInput(
        "--accumulate divides the batch, but the shapes of an .mlir model are its "
        "own; take the .onnx file that it comes from");
  if (options.import.batch)
    return *options.import.batch;
  if (const int64_t batch = batchOfFile(context, options); batch > 0)
    return batch;
  throw Error::badInput("--accumulate divides the samples of a step; say how many: --batch=N");
}

CompileOptions inBatches(const CompileOptions &options, int64_t batches, int64_t batch) {
  CompileOptions sized = options;
  sized.accumulate = batches;
  sized.accumulateAuto = false;
  sized.import.batch = batch / batches;
  return sized;
}

/// Drops warnings and remarks of plans that are only looked at.
class Quiet {
public:
  explicit Quiet(MLIRContext &context)
      : handler(&context, [](Diagnostic &diagnostic) {
          return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
        }) {}

private:
  ScopedDiagnosticHandler handler;
};

/// The step with everything kept: what its batches take before anything is computed again.
CompiledPlan keepingAll(MLIRContext &context, CompileOptions options, CompileStep compile) {
  Quiet quiet(context);
  options.memoryBudget.reset();
  options.checkpoint = "none";
  options.recompute.reset();
  options.profile.clear();
  options.saveProfilePath.clear();
  options.saveProblemPath.clear();
  options.remarksPath.clear();
  options.budgetCovers = BudgetCovers::Arena;
  return compile(options);
}

/// True where a batch's statistics enter the training arithmetic.
bool normalizesByBatch(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return isa<BatchNormTrainingOp, ChannelMomentsOp>(op) ? WalkResult::interrupt()
                                                              : WalkResult::advance();
      })
      .wasInterrupted();
}

std::string sumsNote(const Plan &plan) {
  Bytes sums = 0;
  for (const GraphPlan &graph : plan.graphs)
    if (graph.role == GraphRole::Commit)
      for (const PlannedBuffer &buffer : graph.buffers)
        if (buffer.kind == BufferKind::Accumulator)
          sums += buffer.size;
  return "sums of gradients take " + formatBytesExact(sums);
}

/// --accumulate=K.
CompiledPlan compileInBatches(MLIRContext &context, const CompileOptions &options, int64_t batch,
                              CompileStep compile) {
  const int64_t batches = options.accumulate;
  const CompileOptions split = inBatches(options, batches, batch);
  if (options.stopAfter != Form::Program)
    return compile(split);
  const CompileOptions whole = inBatches(options, 1, batch);
  CompiledPlan wholeKept = keepingAll(context, whole, compile);
  const Bytes inOne = wholeKept.plan.arenaBytes;
  const Bytes inMany = keepingAll(context, split, compile).plan.arenaBytes;
  const std::string sizes = "the arena of " + partsOf(batches, batch) + " is " +
                            formatBytesExact(inMany) + ", of " + partsOf(1, batch) + " " +
                            formatBytesExact(inOne);
  const bool helps = inMany < inOne, staysSplit = helps || normalizesByBatch(*wholeKept.module);
  CompiledPlan result = compile(staysSplit ? split : whole);
  std::string note = flagOf(batches) + (helps ? ": " : " does not lower the memory: ") + sizes +
                     " before anything is computed again";
  if (staysSplit)
    note += "; " + sumsNote(result.plan);
  else
    note += "; the step is run as one batch, whose gradients are the same sums";
  if (!helps)
    if (const std::string why = whyStateIsThePeak(wholeKept.plan); !why.empty())
      note += "; " + why;
  result.plan.notes.push_back(std::move(note));
  return result;
}

/// One number of batches that --accumulate=auto looked at.
struct Trial {
  int64_t batches = 1;
  CompiledPlan compiled;
  std::string outcome; ///< in words
};

std::string outcomeOf(const Plan &plan) {
  return absl::StrFormat("%.4g s a step%s", plan.stepSeconds,
                         plan.extraTimeFraction > 0 ? absl::StrFormat(", %.3g %% of it recomputed",
                                                                      100 * plan.extraTimeFraction)
                                                    : "");
}

/// --accumulate=auto: more batches take less memory for activations and, since weights are read
/// more often and smaller products are slower, more time; so does recomputation. From the first
/// number on that needs none, time only rises.
CompiledPlan compileInBestBatches(MLIRContext &context, const CompileOptions &options,
                                  int64_t batch, CompileStep compile) {
  CompileOptions fixed = options;
  const Bytes inOne = keepingAll(context, inBatches(options, 1, batch), compile).plan.arenaBytes;
  fixed.memoryBudget = {budgetBytes(*options.memoryBudget, inOne), {}};
  fixed.recompute = Allowance(); // what is compared is the least time
  std::optional<Trial> best;
  std::optional<Error> refusal;
  std::string looked;
  for (int64_t batches = 1; batches <= batch; ++batches) {
    if (batch % batches != 0)
      continue;
    Trial trial{batches, {}, {}};
    try {
      Quiet quiet(context);
      trial.compiled = compile(inBatches(fixed, batches, batch));
      trial.outcome = outcomeOf(trial.compiled.plan);
    } catch (const Error &error) {
      if (error.kind() != ErrorKind::Infeasible)
        throw;
      trial.outcome = "does not fit";
      if (!refusal)
        refusal = error;
    }
    looked += (looked.empty() ? "" : "; ") + partsOf(batches, batch) + ": " + trial.outcome;
    if (trial.outcome == "does not fit")
      continue;
    const bool isLast = trial.compiled.plan.extraTimeFraction == 0;
    if (!best || trial.compiled.plan.stepSeconds < best->compiled.plan.stepSeconds)
      best = std::move(trial);
    if (isLast)
      break;
  }
  if (!best)
    throw Error::infeasible(std::string(refusal->what()) +
                            "\n--accumulate=auto: no number of batches fits: " + looked);
  fixed.recompute = options.recompute;
  CompiledPlan result = compile(inBatches(fixed, best->batches, batch));
  result.plan.notes.push_back("--accumulate=auto takes " + partsOf(best->batches, batch) +
                              ", the least time within " +
                              formatBytesExact(*fixed.memoryBudget->bytes) + " by " +
                              result.plan.costSource + ": " + looked);
  return result;
}

} // namespace

CompileOptions perBatch(MLIRContext &context, const CompileOptions &options) {
  if (options.accumulate == 1)
    return options;
  const int64_t batch = samplesPerStep(context, options);
  if (batch % options.accumulate != 0)
    throw Error::badInput(absl::StrCat(flagOf(options.accumulate), " does not divide the ", batch,
                                       " samples of a step; --batch counts those of a "
                                       "whole step, each of its batches has an equal share"));
  return inBatches(options, options.accumulate, batch);
}

CompiledPlan compileAccumulated(MLIRContext &context, const CompileOptions &options,
                                CompileStep compile) {
  const int64_t batch = samplesPerStep(context, options);
  if (options.accumulateAuto)
    return compileInBestBatches(context, options, batch, compile);
  perBatch(context, options); // divides, or says that it does not
  return compileInBatches(context, options, batch, compile);
}

std::string whyStateIsThePeak(const Plan &plan) {
  const Breakdown parts = breakdownAtPeak(plan);
  const Bytes state = parts.parameters + parts.optimizer + parts.statistics;
  if (state <= parts.activations)
    return "";
  return formatBytesExact(state) + " of the peak are parameters and optimizer state, activations " +
         formatBytesExact(parts.activations);
}

} // namespace stow
