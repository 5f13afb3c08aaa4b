// How much of what the optimizer keeps is in 8 bits, or in shards on several devices, and how much of state lies in slow memory.
#include "passes/plan/Question.h"

namespace stow {
namespace {

/// The first of rising shares with which the budget is met; without a budget none.
StepAnswer inShareThatFits(Steps &steps, const StepQuestion &question,
                           std::optional<int64_t> StepVariant::*share) {
  StepQuestion tried = withBudgetInBytes(steps, question);
  StepAnswer found;
  for (int64_t percent : {0, 25, 50, 75, 100}) {
    tried.asked.*share = percent;
    found = answer(steps, tried);
    if (found.choice || !question.budget)
      break;
  }
  return found;
}

} // namespace

/// No more than the budget needs, since every further tensor is rounded in every step.
StepAnswer inStateThatFits(Steps &steps, const StepQuestion &question) {
  return inShareThatFits(steps, question, &StepVariant::eightBitPercent);
}

/// No more than the budget needs: state first, whose shards put as many bytes on the network as whole state, then weights, which are
/// gathered wherever they are read.
StepAnswer inShardsThatFit(Steps &steps, const StepQuestion &question) {
  StepQuestion tried = withBudgetInBytes(steps, question);
  tried.asked.weightShardPercent = 0;
  StepAnswer found = inShareThatFits(steps, tried, &StepVariant::shardPercent);
  tried.asked.shardPercent = 100;
  for (int64_t percent : {25, 50, 75, 100}) {
    if (found.choice || !question.budget)
      break;
    tried.asked.weightShardPercent = percent;
    found = answer(steps, tried);
  }
  return found;
}

/// No more than the budget needs, since every further tensor travels in every step.
StepAnswer withStateAwayThatFits(Steps &steps, const StepQuestion &question) {
  return inShareThatFits(steps, question, &StepVariant::awayPercent);
}

} // namespace stow
