// How much of what the optimizer keeps is in 8 bits.
#include "passes/plan/Question.h"

namespace stow {

/// No more than the budget needs, since every further tensor is rounded in every step; without a budget nothing. A share of an arena is
/// a share of the one with all state in f32.
StepAnswer inStateThatFits(Steps &steps, const StepQuestion &question) {
  StepQuestion tried = question;
  StepAnswer found;
  for (int64_t percent : {0, 25, 50, 75, 100}) {
    tried.asked.eightBitPercent = percent;
    if (percent == 0 && tried.budget && tried.budget->peakPercent)
      tried.budget = {
          budgetBytes(*tried.budget, keepingAll(steps, undivided(tried.asked)).plan.arenaBytes),
          {}};
    found = answer(steps, tried);
    if (found.choice || !question.budget)
      break;
  }
  return found;
}

} // namespace stow
