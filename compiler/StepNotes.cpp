#include "compiler/StepNotes.h"

#include "llvm/ADT/StringExtras.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace stow {
namespace {

std::string partsOf(int64_t batches, int64_t samples) {
  return batches == 1 ? absl::StrCat("one batch of ", samples)
                      : absl::StrCat(batches, " batches of ", samples / batches);
}

std::string outcomeOf(const BatchesTried &tried) {
  if (!tried.fits)
    return "does not fit";
  std::string text = absl::StrFormat("%.4g s a step", tried.stepSeconds);
  if (tried.recomputedFraction > 0)
    absl::StrAppendFormat(&text, ", %.3g %% of it recomputed", 100 * tried.recomputedFraction);
  if (tried.waitSeconds > 0)
    absl::StrAppendFormat(&text, ", %.3g s of it waiting for copies", tried.waitSeconds);
  return text;
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
std::string noteOf(const BatchesWeighed &weighed, const StepAnswer &answer) {
  const StepVariant &taken = answer.step->variant;
  const int64_t samples = taken.samples.value();
  const std::string flag = absl::StrCat("--accumulate=", weighed.batches);
  std::string note = flag + (weighed.helps() ? ": " : " does not lower the memory: ") +
                     "the arena of " + partsOf(weighed.batches, samples) + " is " +
                     formatBytesExact(weighed.arenaBytes) + ", of " + partsOf(1, samples) + " " +
                     formatBytesExact(weighed.inOne.arenaBytes) +
                     " before anything is computed again";
  if (taken.batches > 1)
    note += "; " + sumsNote(answer.plan);
  else
    note += "; the step is run as one batch, whose gradients are the same sums";
  if (!weighed.helps())
    if (const std::string why = whyStateIsThePeak(weighed.inOne); !why.empty())
      note += "; " + why;
  return note;
}

} // namespace

std::string noteOf(const LeftWide &left, const CompileOptions &options) {
  const bool takesMore = !left.isAny() && left.narrowBytes > left.wideBytes;
  if (!left.isAny() && !takesMore)
    return "";
  const bool waits = options.precision == Precision::F16 && options.lossScale != "delayed";
  const std::string flag =
      options.precision == Precision::BF16 ? "--precision=bf16: " : "--precision=fp16: ";
  if (takesMore)
    return absl::StrCat(
        flag, "16 bits", waits ? ", whose updates wait with --loss-scale=dynamic," : "", " take ",
        formatBytesExact(left.narrowBytes), ", f32 ", formatBytesExact(left.wideBytes),
        "; they are taken, since a step is faster in them on this device");
  const std::string what = left.all ? "everything is stored and computed"
                                    : absl::StrCat(llvm::join(left.nodes, ", "),
                                                   left.nodes.size() == 1 ? " runs" : " run");
  return absl::StrCat(flag, what, " in f32, since 16 bits",
                      waits ? ", whose updates wait with --loss-scale=dynamic," : "", " take ",
                      formatBytesExact(left.narrowBytes), ", f32 ",
                      formatBytesExact(left.wideBytes));
}

std::string describeTried(const StepAnswer &answer) {
  std::string text;
  for (const BatchesTried &tried : answer.batchesTried)
    text += (text.empty() ? "" : "; ") +
            partsOf(tried.batches, answer.step->variant.samples.value()) + ": " + outcomeOf(tried);
  return text;
}

std::string noteOfBatches(const StepAnswer &answer) {
  if (answer.batchesWeighed)
    return noteOf(*answer.batchesWeighed, answer);
  if (answer.batchesTried.empty())
    return "";
  const StepVariant &taken = answer.step->variant;
  return "--accumulate=auto takes " + partsOf(taken.batches, taken.samples.value()) +
         ", the least time within " + formatBytesExact(answer.budgetBytes) + " by " +
         answer.plan.costSource + ": " + describeTried(answer);
}

std::string whyStateIsThePeak(const Plan &plan) {
  const Breakdown parts = breakdownAtPeak(plan);
  const Bytes state = parts.parameters + parts.frozen + parts.optimizer + parts.statistics +
                      parts.fetchedWeights + parts.fetchedOptimizer;
  if (state <= parts.activations)
    return "";
  return formatBytesExact(state) + " of the peak are parameters and optimizer state, activations " +
         formatBytesExact(parts.activations);
}

} // namespace stow
