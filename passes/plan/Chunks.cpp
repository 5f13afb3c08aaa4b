// How many chunks of rows: of the head and its loss, or of chains between two products.
#include "passes/plan/Question.h"
#include "passes/plan/QuickPlacement.h"
#include "runtime/base/LongWork.h"

#include <utility>

namespace stow {
namespace {

/// What there was has to fall to, where more chunks pay.
constexpr double kWorth = 0.998;

/// An answer, and where nothing fits, what the step takes at least, about.
struct Tried {
  StepAnswer answer;
  std::optional<Bytes> leastBytes = {};

  Bytes least() {
    if (!leastBytes)
      leastBytes = leastPlacement(answer.arenaBudget(), *answer.step);
    return *leastBytes;
  }
};

/// True when more chunks pay: in less time under a budget that is met, else in a smaller arena.
bool pays(Tried &tried, Tried &before, bool isBudgeted) {
  const auto isLess = [](auto now, auto then) {
    return static_cast<double>(now) < kWorth * static_cast<double>(then);
  };
  const StepAnswer &found = tried.answer, &best = before.answer;
  if (!best.choice)
    return found.choice || isLess(tried.least(), before.least());
  if (!found.choice)
    return false;
  return isBudgeted ? isLess(found.plan.stepSeconds, best.plan.stepSeconds)
                    : isLess(found.plan.arenaBytes, best.plan.arenaBytes);
}

/// The step in one chunk and in two, held while it is asked about: the same where it has no such chains.
struct FirstSteps {
  FirstSteps(Steps &steps, StepVariant variant, int64_t StepVariant::*chunks) {
    variant = undivided(std::move(variant));
    whole = steps.exactly(variant);
    variant.*chunks = 2;
    chunked = steps.exactly(variant);
  }

  bool areSame() const {
    return mlir::OperationEquivalence::isEquivalentTo(whole->module(), chunked->module(),
                                                      mlir::OperationEquivalence::IgnoreLocations);
  }

  std::shared_ptr<ModelStep> whole, chunked;
};

} // namespace

/// Twice as many until that pays no more, twice in a row.
StepAnswer inBestChunks(Steps &steps, const StepQuestion &question, int64_t StepVariant::*chunks) {
  constexpr int64_t most = 256;
  StepQuestion tried = question;
  const FirstSteps first(steps, question.asked, chunks);
  if (first.areSame()) {
    tried.asked.*chunks = 1;
    return answer(steps, tried);
  }
  if (question.budget) // what is compared is time
    tried.allowance = Allowance();
  std::optional<Tried> best; // where nothing fits, the least says why
  int inVain = 0;
  for (int64_t count = 1; count <= most && inVain < 2 && !wasInterrupted(); count *= 2) {
    tried.asked.*chunks = count;
    Tried found = {answer(steps, tried)};
    if (!best || pays(found, *best, question.budget.has_value())) {
      best = std::move(found);
      inVain = 0;
    } else {
      ++inVain;
    }
  }
  return !best->answer.choice || tried.allowance == question.allowance
             ? std::move(best->answer)
             : askedAgain(steps, question, std::move(best->answer));
}

} // namespace stow
