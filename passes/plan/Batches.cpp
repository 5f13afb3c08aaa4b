// How many batches a step has, whose gradients are summed.
#include "ir/StepGraphs.h"
#include "passes/plan/Question.h"
#include "runtime/format/PlanReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <utility>

using namespace mlir;

namespace stow {
namespace {

/// True where a graph that trains updates running statistics, or other buffers of the model.
bool updatesStatistics(func::FuncOp graph) {
  llvm::StringSet<> statistics;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    if (kindOfArgument(graph, i) == ArgumentKind::Statistic)
      statistics.insert(graph.getArgAttrOfType<StringAttr>(i, kNameAttr).getValue());
  return llvm::any_of(llvm::seq(graph.getNumResults()), [&](unsigned i) {
    auto state = graph.getResultAttrOfType<StringAttr>(i, kStateAttr);
    return state && statistics.contains(state.getValue());
  });
}

/// True where the step in so many batches gives the sums of the step in one: no batch updates what the next one reads, and no sample's
/// result depends on another's.
bool givesTheSameSums(const KeptStep &whole, int64_t batches) {
  const int64_t samples = whole.step->variant.samples.value();
  return !updatesStatistics(stepGraph(*whole.placed)) &&
         llvm::is_contained(whole.step->evaluation().sizes(samples), samples / batches);
}

StepVariant inBatches(StepVariant variant, int64_t batches) {
  variant.batches = batches;
  return variant;
}

} // namespace

/// In one where that takes no more memory and gives the same sums.
StepAnswer inBatchesThatHelp(Steps &steps, const StepQuestion &question) {
  const KeptStep whole = keepingAll(steps, inBatches(question.asked, 1));
  const KeptStep parts = keepingAll(steps, question.asked);
  BatchesWeighed weighed = {question.asked.batches, parts.plan.arenaBytes, whole.plan};
  StepQuestion settled = question;
  settled.asGiven = true;
  if (!weighed.helps() && givesTheSameSums(whole, question.asked.batches))
    settled.asked.batches = 1;
  StepAnswer found = answer(steps, settled);
  found.batchesWeighed = std::move(weighed);
  return found;
}

/// More batches take less memory for activations and, since weights are read more often and smaller products are slower, more
/// time; so do recomputation and waits for copies. From the first number on that needs neither, time only rises.
StepAnswer inBestBatches(Steps &steps, const StepQuestion &question) {
  const int64_t samples = question.asked.samples.value();
  StepQuestion tried = question;
  tried.asGiven = true;
  tried.budget = {budgetBytes(*question.budget,
                              keepingAll(steps, inBatches(question.asked, 1)).plan.arenaBytes),
                  {}};
  tried.allowance = Allowance(); // what is compared is the least time
  StepAnswer best;
  std::vector<BatchesTried> all;
  for (int64_t batches = 1; batches <= samples; ++batches) {
    if (samples % batches != 0)
      continue;
    tried.asked.batches = batches;
    StepAnswer found = answer(steps, tried);
    const bool isLast = found.choice && found.plan.extraTimeFraction == 0;
    all.push_back({batches, found.choice.has_value(), found.plan.stepSeconds,
                   recomputedFractionOf(found.plan), waitSecondsOf(found.plan)});
    if (batches == 1 ||
        (found.choice && (!best.choice || found.plan.stepSeconds < best.plan.stepSeconds))) {
      best = std::move(found); // where nothing fits, one batch says why
    }
    if (isLast)
      break;
  }
  if (best.choice && tried.allowance != question.allowance) {
    tried.allowance = question.allowance;
    best = askedAgain(steps, tried, std::move(best));
  }
  best.batchesTried = std::move(all);
  return best;
}

} // namespace stow
