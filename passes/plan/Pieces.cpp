// How many pieces of rows: of the head and its loss, or of chains between two products.
#include "passes/plan/Question.h"
#include "runtime/base/LongWork.h"

#include <utility>

namespace stow {
namespace {

/// True when more pieces pay: in less time under a budget, else in a smaller arena.
bool pays(const Plan &plan, const Plan &before, bool isBudgeted) {
  constexpr double worth = 0.998; // of what there was
  return isBudgeted ? plan.stepSeconds < worth * before.stepSeconds
                    : static_cast<double>(plan.arenaBytes) <
                          worth * static_cast<double>(before.arenaBytes);
}

} // namespace

/// Twice as many until that pays no more, twice in a row.
StepAnswer inBestPieces(Steps &steps, const StepQuestion &question, int64_t StepVariant::*pieces) {
  constexpr int64_t most = 256;
  StepQuestion tried = question;
  if (question.budget) // what is compared is time
    tried.allowance = Allowance();
  StepAnswer best;
  int inVain = 0;
  for (int64_t count = 1; count <= most && inVain < 2 && !wasInterrupted(); count *= 2) {
    tried.asked.*pieces = count;
    StepAnswer found = answer(steps, tried);
    if (!best.choice ||
        (found.choice && pays(found.plan, best.plan, question.budget.has_value()))) {
      best = std::move(found); // where nothing fits yet, the last one says why
      inVain = 0;
    } else {
      ++inVain;
    }
  }
  return !best.choice || tried.allowance == question.allowance
             ? std::move(best)
             : askedAgain(steps, question, std::move(best));
}

} // namespace stow
