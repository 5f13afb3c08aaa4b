#include "passes/plan/Question.h"

#include "passes/SmallLaunches.h"
#include "passes/plan/TimedPlan.h"
#include "runtime/base/LongWork.h"

#include <algorithm>
#include <utility>

using namespace mlir;

namespace stow {
namespace {

/// A choice, and the arena that it was to keep to.
struct Chosen {
  StepChoice choice;
  Bytes within = 0;
};

Chosen withinItself(StepChoice choice) {
  const Bytes arenaBytes = choice.arenaBytes;
  return {std::move(choice), arenaBytes};
}

/// The plan of no budget, in the time that recomputation may take.
StepChoice inSpareTime(BudgetPlanner &planner, const StepQuestion &question) {
  return question.inSegments ? BudgetPlanner::copyOf(planner.checkpointed())
                             : planner.within(question.allowance);
}

/// A budget only limits: where the plan of no budget is within it, it is that one.
std::optional<Chosen> planWithin(Bytes budget, BudgetPlanner &planner,
                                 const StepQuestion &question) {
  const double share = question.allowance.share;
  const bool waitsForState = question.asked.awayPercent != 0; // with everything kept
  if (!waitsForState && (planner.keepAll().arenaBytes <= budget ||
                         (share > 0 && planner.extraTimeBound(budget) <= share)))
    if (StepChoice spared = inSpareTime(planner, question); spared.arenaBytes <= budget)
      return withinItself(std::move(spared));
  if (wasInterrupted())
    return std::nullopt;
  std::optional<StepChoice> choice = planner.plan(budget);
  return choice ? std::optional<Chosen>({std::move(*choice), budget}) : std::nullopt;
}

/// What runs again adds calls, and these, on the host, a little to what is beside the arena.
std::optional<Chosen> planBeside(StepAnswer &answer, BudgetPlanner &planner,
                                 const StepQuestion &question) {
  const auto beside = [&](const StepChoice &choice) {
    return question.beside ? question.beside(choice) : 0;
  };
  answer.besideBytes = beside(planner.keepAll());
  answer.budgetBytes =
      budgetBytes(*question.budget, planner.keepAll().arenaBytes + answer.besideBytes);
  for (;;) {
    std::optional<Chosen> chosen = planWithin(answer.arenaBudget(), planner, question);
    if (!chosen)
      return std::nullopt;
    const Bytes needed = beside(chosen->choice);
    if (needed <= answer.besideBytes)
      return chosen;
    answer.besideBytes = needed;
  }
}

/// Every axis of the question is settled.
StepAnswer ofOneStep(Steps &steps, const StepQuestion &question) {
  StepAnswer answer;
  answer.step = steps.at(question.asked, question.times);
  BudgetPlanner &planner = answer.step->planner();
  std::optional<Interruptible> interruptible;
  if (question.endsEarly)
    interruptible.emplace();
  std::optional<Chosen> chosen = question.budget ? planBeside(answer, planner, question)
                                                 : withinItself(inSpareTime(planner, question));
  if (!chosen && wasInterrupted())
    throw Interrupted();
  if (!chosen && areLaunchesJoined(answer.step->module())) {
    StepQuestion apart = question;
    apart.asked.launchesApart = true;
    apart.budget = ByteBudget{.bytes = answer.budgetBytes, .peakPercent = {}};
    return ofOneStep(steps, apart);
  }
  if (!chosen)
    return answer;
  answer.within = chosen->within;
  answer.choice = std::move(chosen->choice);
  steps.source.finish(*answer.choice->placed, answer.step->target());
  answer.plan = planOf(*answer.choice->placed, answer.step->costs);
  return answer;
}

} // namespace

StepAnswer answer(Steps &steps, const StepQuestion &question) {
  const StepVariant &asked = question.asked;
  if (asked.awayPercent != 0 && question.budget && question.budget->peakPercent)
    return answer(steps, withBudgetInBytes(steps, question));
  if (!asked.eightBitPercent)
    return inStateThatFits(steps, question);
  if (!asked.shardPercent || !asked.weightShardPercent)
    return inShardsThatFit(steps, question);
  if (!asked.awayPercent)
    return withStateAwayThatFits(steps, question);
  for (int64_t StepVariant::*chunks : {&StepVariant::lossChunks, &StepVariant::rowChunks})
    if (asked.*chunks == kAny)
      return inBestChunks(steps, question, chunks);
  if (asked.batches == kAny)
    return inBestBatches(steps, question);
  if (asked.batches > 1 && !question.asGiven)
    return inBatchesThatHelp(steps, question);
  return ofOneStep(steps, question);
}

StepQuestion withBudgetInBytes(Steps &steps, StepQuestion question) {
  if (!question.budget || !question.budget->peakPercent)
    return question;
  StepVariant whole = undivided(question.asked);
  whole.awayPercent = 0;
  whole.eightBitPercent = whole.eightBitPercent.value_or(0);
  whole.shardPercent = whole.shardPercent.value_or(0);
  whole.weightShardPercent = whole.weightShardPercent.value_or(0);
  KeptStep kept = keepingAll(steps, whole);
  StepChoice choice;
  choice.placed = std::move(kept.placed);
  const Bytes besideBytes = question.beside ? question.beside(choice) : 0;
  question.budget = {budgetBytes(*question.budget, kept.plan.arenaBytes + besideBytes), {}};
  return question;
}

StepVariant undivided(StepVariant variant) {
  for (int64_t StepVariant::*axis :
       {&StepVariant::batches, &StepVariant::lossChunks, &StepVariant::rowChunks})
    if (variant.*axis == kAny)
      variant.*axis = 1;
  return variant;
}

StepAnswer askedAgain(Steps &steps, const StepQuestion &question, StepAnswer best) {
  StepQuestion settled = question;
  settled.asked.batches = best.step->variant.batches;
  settled.asked.lossChunks = best.step->variant.lossChunks;
  settled.asked.rowChunks = best.step->variant.rowChunks;
  settled.asked.eightBitPercent = best.step->variant.eightBitPercent;
  settled.asked.shardPercent = best.step->variant.shardPercent;
  settled.asked.weightShardPercent = best.step->variant.weightShardPercent;
  settled.asked.awayPercent = best.step->variant.awayPercent;
  settled.asked.launchesApart = best.step->variant.launchesApart;
  settled.asGiven = true;
  StepAnswer again = answer(steps, settled);
  again.batchesTried = std::move(best.batchesTried);
  again.batchesWeighed = std::move(best.batchesWeighed);
  return again;
}

KeptStep keepingAll(Steps &steps, const StepVariant &variant) {
  KeptStep kept;
  kept.step = steps.at(variant);
  kept.placed = std::move(kept.step->planner().within(Allowance()).placed);
  steps.source.finish(*kept.placed, kept.step->target());
  kept.plan = planOf(*kept.placed, kept.step->costs);
  return kept;
}

} // namespace stow
