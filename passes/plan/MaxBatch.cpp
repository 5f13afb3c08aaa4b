#include "passes/plan/MaxBatch.h"

#include "passes/plan/QuickPlacement.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace mlir;

namespace stow {
namespace {

/// What is known about one batch.
struct Probe {
  bool fits = false;
  Bytes arenaBytes = 0; ///< where it does not, about the least that it takes
  double extraTime = 0;
  Bytes lowerBound = 0; ///< 0 where the batch fits, or nothing is proven
};

class BatchSearch {
public:
  BatchSearch(const BatchQuestion &question, double effort) : question(question), effort(effort) {}

  const Probe &at(int64_t batch) {
    auto known = probes.find(batch);
    if (known == probes.end())
      known = probes.emplace(batch, probe(batch)).first;
    return known->second;
  }

  /// The largest batch that fits, given that `fits` does: steps of 1, 2, 4, ..., then bisection.
  int64_t largestFrom(int64_t fits, int64_t limit) {
    int64_t step = 1;
    while (fits + step <= limit && at(fits + step).fits) {
      fits += step;
      step *= 2;
    }
    int64_t fails = std::min(fits + step, limit + 1);
    while (fits + 1 < fails) {
      int64_t middle = fits + (fails - fits) / 2;
      (at(middle).fits ? fits : fails) = middle;
    }
    return fits;
  }

  /// The smallest arena of a batch: more work than to find that it does not fit.
  Bytes smallestAt(int64_t batch) {
    OwningOpRef<ModuleOp> prepared = question.stepAt(batch);
    BudgetPlanner planner(*prepared, question.costs, *question.target, planning(batch));
    const Bytes smallest = planner.smallest().arenaBytes;
    note(planner);
    return smallest;
  }

  std::vector<Refusal> refusals; ///< of all probes

private:
  BudgetOptions planning(int64_t batch) const {
    BudgetOptions planning;
    planning.effort = effort;
    planning.candidates = question.candidates;
    if (question.partsAt)
      planning.evaluation = question.partsAt(batch);
    return planning;
  }

  void note(const BudgetPlanner &planner) { llvm::append_range(refusals, planner.refusals()); }

  Probe probe(int64_t batch) {
    OwningOpRef<ModuleOp> prepared = question.stepAt(batch);
    BudgetPlanner planner(*prepared, question.costs, *question.target, planning(batch));
    Probe result;
    if (std::optional<StepChoice> choice = planner.plan(question.budget)) {
      result.fits = true;
      result.arenaBytes = choice->arenaBytes;
      result.extraTime =
          static_cast<double>(choice->time) / static_cast<double>(planner.keepAll().time) - 1;
    } else {
      result.lowerBound = planner.lowerBound();
      result.arenaBytes =
          result.lowerBound > question.budget ? result.lowerBound : planner.smallest().arenaBytes;
    }
    note(planner);
    return result;
  }

  const BatchQuestion &question;
  double effort;
  std::map<int64_t, Probe> probes;
};

/// The least batch whose lower bound exceeds the budget: bounds grow with the batch. `fails` is
/// known not to fit.
void proveAbove(BatchAnswer &answer, BatchSearch &quick, Bytes budget, int64_t fails,
                int64_t limit) {
  if (quick.at(fails).lowerBound == 0)
    return;
  int64_t open = fails - 1, closed = fails;
  while (quick.at(closed).lowerBound <= budget) {
    open = closed;
    if (closed > limit)
      return;
    closed *= 2;
  }
  while (open + 1 < closed) {
    int64_t middle = open + (closed - open) / 2;
    (quick.at(middle).lowerBound > budget ? closed : open) = middle;
  }
  answer.provenAbove = closed;
  answer.provenBytes = quick.at(closed).lowerBound;
}

} // namespace

BatchAnswer findMaxBatch(const BatchQuestion &question, int64_t limit) {
  // Cuts alone find nearly all of it; the full search only has to look above.
  BatchSearch quick(question, /*effort=*/0);
  BatchSearch search(question, /*effort=*/1);
  BatchAnswer answer;
  int64_t fits = quick.largestFrom(0, limit);
  while (fits > 0 && !search.at(fits).fits)
    --fits;
  fits = search.largestFrom(fits, limit);
  const int64_t fails = fits + 1;
  if (fits > 0) {
    answer.batch = fits;
    answer.arenaBytes = search.at(fits).arenaBytes;
    answer.extraTime = search.at(fits).extraTime;
  }
  if (fails <= limit) {
    answer.nextSmallest = search.smallestAt(fails);
    proveAbove(answer, quick, question.budget, fails, limit);
  }
  answer.refusals = std::move(quick.refusals);
  answer.refusals.insert(answer.refusals.end(), search.refusals.begin(), search.refusals.end());
  return answer;
}

BatchAnswer findSomeBatch(const BatchQuestion &question, int64_t guess, BatchChoice tooLarge) {
  constexpr int kProbes = 6;
  for (int i = 0; i < kProbes && guess >= 1; ++i) {
    OwningOpRef<ModuleOp> prepared = question.stepAt(guess);
    const QuickPlacement placed =
        placeWithin(question.budget, *prepared, *tooLarge.choice, question.costs, *question.target,
                    question.partsAt ? question.partsAt(guess) : EvaluationParts());
    if (placed.fits) {
      BatchAnswer answer;
      answer.batch = guess;
      answer.arenaBytes = placed.arenaBytes;
      return answer;
    }
    // A step of 1 at least, and of a tenth where the line leads nowhere.
    const auto perSample = static_cast<double>(tooLarge.choice->arenaBytes - placed.arenaBytes) /
                           static_cast<double>(tooLarge.batch - guess);
    const auto over = static_cast<double>(placed.arenaBytes - question.budget);
    const double step =
        perSample > 0 ? std::ceil(over / perSample) : 0.1 * static_cast<double>(guess);
    const auto mostStep =
        static_cast<double>(std::max<int64_t>(guess - 1, 1)); // 1 is tried as well
    guess -= static_cast<int64_t>(std::clamp(step, 1.0, mostStep));
  }
  return {};
}

} // namespace stow
