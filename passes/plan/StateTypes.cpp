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

/// No more than the budget needs, since every further parameter is gathered in every step.
StepAnswer inShardsThatFit(Steps &steps, const StepQuestion &question) {
  return inShareThatFits(steps, question, &StepVariant::shardPercent);
}

/// No more than the budget needs, since every further tensor travels in every step.
StepAnswer withStateAwayThatFits(Steps &steps, const StepQuestion &question) {
  return inShareThatFits(steps, question, &StepVariant::awayPercent);
}

} // namespace stow
