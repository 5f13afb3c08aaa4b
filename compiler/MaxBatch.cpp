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
  Bytes arenaBytes = 0;
  double extraTime = 0;
  Bytes lowerBound = 0; ///< asked for only where the batch does not fit
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

private:
  Probe probe(int64_t batch) {
    CompileOptions sized = options;
    sized.import.batch = batch;
    OwningOpRef<ModuleOp> prepared = prepareStep(context, sized);
    BudgetOptions budgetOptions;
    budgetOptions.effort = effort;
    BudgetPlanner planner(*prepared, costs, budgetOptions);
    Probe result;
    if (std::optional<StepChoice> choice = planner.plan(budget)) {
      result.fits = true;
      result.arenaBytes = choice->arenaBytes;
      result.extraTime =
          static_cast<double>(choice->time) / static_cast<double>(planner.keepAll().time) - 1;
    } else {
      result.arenaBytes = planner.smallest().arenaBytes;
      result.lowerBound = planner.lowerBound();
    }
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
                         double effort, int64_t limit) {
  BatchSearch search(context, options, budget, effort);
  BatchAnswer answer;
  int64_t fits = 0, fails = 1;
  while (fails <= limit && search.at(fails).fits) {
    fits = fails;
    fails *= 2;
  }
  fails = std::min(fails, limit + 1);
  while (fits + 1 < fails) {
    int64_t middle = fits + (fails - fits) / 2;
    (search.at(middle).fits ? fits : fails) = middle;
  }
  if (fits > 0) {
    answer.batch = fits;
    answer.arenaBytes = search.at(fits).arenaBytes;
    answer.extraTime = search.at(fits).extraTime;
  }
  if (fails > limit)
    return answer;
  answer.nextSmallest = search.at(fails).arenaBytes;
  // The least batch whose lower bound exceeds the budget: bounds grow with the batch.
  int64_t open = fits, closed = fails;
  while (search.at(closed).lowerBound <= budget) {
    open = closed;
    if (closed > limit)
      return answer;
    closed *= 2;
  }
  while (open + 1 < closed) {
    int64_t middle = open + (closed - open) / 2;
    const Probe &probe = search.at(middle);
    (!probe.fits && probe.lowerBound > budget ? closed : open) = middle;
  }
  answer.provenAbove = closed;
  answer.provenBytes = search.at(closed).lowerBound;
  return answer;
}

} // namespace stow
