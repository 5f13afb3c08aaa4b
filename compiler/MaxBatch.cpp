// The largest batch under a budget: doubling, then bisection, each probe a whole plan.
//
//   fits          1   2   4   8  . 12 .  16        16 does not fit; 8..16 is bisected
//   proven not                          16         lower bound above the budget
#include "compiler/DeviceProfile.h"
#include "compiler/Pipeline.h"
#include "compiler/Planning.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace stow {
namespace {

/// What is known about one batch.
struct Probe {
  bool fits = false;
  Bytes arenaBytes = 0; ///< 0 where it does not
  double extraTime = 0;
  Bytes lowerBound = 0; ///< 0 where the batch fits, or nothing is proven
};

class BatchSearch {
public:
  BatchSearch(MLIRContext &context, const CompileOptions &options, Bytes budget, double effort)
      : context(context), options(options), budget(budget), effort(effort),
        costs(loadDevice(options.device, options.threads)) {}

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
    OwningOpRef<ModuleOp> prepared = stepAt(batch);
    return BudgetPlanner(*prepared, costs, planning()).smallest().arenaBytes;
  }

private:
  OwningOpRef<ModuleOp> stepAt(int64_t batch) {
    CompileOptions sized = options;
    sized.import.batch = batch;
    return prepareStep(context, sized);
  }

  BudgetOptions planning() const {
    BudgetOptions planning;
    planning.effort = effort;
    planning.candidates.refusedPath = refusedPathOf(options);
    return planning;
  }

  Probe probe(int64_t batch) {
    OwningOpRef<ModuleOp> prepared = stepAt(batch);
    BudgetPlanner planner(*prepared, costs, planning());
    Probe result;
    if (std::optional<StepChoice> choice = planner.plan(budget)) {
      result.fits = true;
      result.arenaBytes = choice->arenaBytes;
      result.extraTime =
          static_cast<double>(choice->time) / static_cast<double>(planner.keepAll().time) - 1;
    } else {
      result.lowerBound = planner.lowerBound();
    }
    reportRefusals(planner, std::nullopt);
    return result;
  }

  MLIRContext &context;
  const CompileOptions &options;
  Bytes budget;
  double effort;
  CostModel costs;
  std::map<int64_t, Probe> probes;
};

} // namespace

BatchAnswer findMaxBatch(MLIRContext &context, const CompileOptions &options, Bytes budget,
                         int64_t limit) {
  // Cuts alone find nearly all of it; the full search only has to look above.
  BatchSearch quick(context, options, budget, /*effort=*/0);
  BatchSearch search(context, options, budget, /*effort=*/1);
  BatchAnswer answer;
  int64_t fits = quick.largestFrom(0, limit);
  while (fits > 0 && !search.at(fits).fits)
    --fits;
  fits = search.largestFrom(fits, limit);
  int64_t fails = fits + 1;
  if (fits > 0) {
    answer.batch = fits;
    answer.arenaBytes = search.at(fits).arenaBytes;
    answer.extraTime = search.at(fits).extraTime;
  }
  if (fails > limit)
    return answer;
  answer.nextSmallest = search.smallestAt(fails);
  if (quick.at(fails).lowerBound == 0)
    return answer;
  // The least batch whose lower bound exceeds the budget: bounds grow with the batch.
  int64_t open = fits, closed = fails;
  while (quick.at(closed).lowerBound <= budget) {
    open = closed;
    if (closed > limit)
      return answer;
    closed *= 2;
  }
  while (open + 1 < closed) {
    int64_t middle = open + (closed - open) / 2;
    (quick.at(middle).lowerBound > budget ? closed : open) = middle;
  }
  answer.provenAbove = closed;
  answer.provenBytes = quick.at(closed).lowerBound;
  return answer;
}

BatchAnswer findSomeBatch(MLIRContext &context, const CompileOptions &options, Bytes budget,
                          int64_t guess) {
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  BatchSearch search(context, options, budget, /*effort=*/0);
  constexpr int kProbes = 6;
  BatchAnswer answer;
  for (int i = 0; i < kProbes && guess >= 1; ++i, guess = std::min(guess - 1, guess * 9 / 10))
    if (const Probe &probe = search.at(guess); probe.fits) {
      answer.batch = guess;
      answer.arenaBytes = probe.arenaBytes;
      answer.extraTime = probe.extraTime;
      break;
    }
  return answer;
}

} // namespace stow
