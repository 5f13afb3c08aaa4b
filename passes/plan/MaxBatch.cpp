#include "passes/plan/MaxBatch.h"

#include "passes/plan/QuickPlacement.h"
#include "runtime/base/LongWork.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace mlir;

namespace stow {
namespace {

/// Quick plans at most, and how close to the first batch that does not fit the answer is to be where these do not
/// suffice to halve down to one.
constexpr int kProbes = 9;
constexpr int64_t kCloseness = 64;

/// Ops up to which a plan takes so little time that some batches above the answer are looked at by whole plans.
constexpr size_t kSmallStep = 150;
constexpr int kLookedAbove = 4;

/// What is known about one batch.
struct Probe {
  bool fits = false;
  BatchPoint point;     ///< where it fits
  Bytes stateBytes = 0; ///< whatever the batch
  Bytes keptBytes = 0;  ///< the arena with everything kept
  Bytes lowerBound = 0; ///< of every arena
  double extraBound =
      0; ///< no plan within the budget takes less extra time; above the limit only where that was asked
  size_t opCount = 0;
};

class BatchSearch {
public:
  explicit BatchSearch(const BatchQuestion &question) : question(question) {}

  const Probe &at(int64_t batch) {
    auto known = probes.find(batch);
    if (known == probes.end())
      known = probes.emplace(batch, probe(batch)).first;
    return known->second;
  }

  /// The plan of a batch as a compilation makes it; absent where it takes too long or does not fit.
  std::optional<BatchPoint> wholePlan(int64_t batch) {
    const std::shared_ptr<ModelStep> step = stepAt(batch);
    BudgetPlanner &planner = step->planner();
    const std::optional<StepChoice> choice = planner.plan(question.budget);
    note(planner);
    stopWhereInterrupted();
    if (!choice)
      return std::nullopt;
    const BatchPoint point = pointOf(batch, *choice, planner);
    return point.extraTime <= question.mostExtraTime ? std::optional(point) : std::nullopt;
  }

  /// The smallest arena of a batch: more work than to find that it does not fit.
  Bytes smallestAt(int64_t batch) {
    const std::shared_ptr<ModelStep> step = stepAt(batch);
    const Bytes smallest = step->planner().smallest().arenaBytes;
    note(step->planner());
    return smallest;
  }

  /// The least batch above one that a probe says does not fit.
  std::optional<int64_t> firstNotAbove(int64_t batch) const {
    for (auto above = probes.upper_bound(batch); above != probes.end(); ++above)
      if (!above->second.fits)
        return above->first;
    return std::nullopt;
  }

  const std::map<int64_t, Probe> &all() const { return probes; }
  bool isExhausted() const { return probes.size() >= kProbes; }

  std::vector<Refusal> refusals; ///< of all probes

private:
  std::shared_ptr<ModelStep> stepAt(int64_t batch) const {
    noteStage("batch " + std::to_string(batch));
    std::shared_ptr<ModelStep> step = question.stepAt(batch);
    step->say();
    return step;
  }

  void note(const BudgetPlanner &planner) { llvm::append_range(refusals, planner.refusals()); }

  /// What a search that was ended early gives is no answer about a batch.
  static void stopWhereInterrupted() {
    if (wasInterrupted())
      throw Interrupted();
  }

  static BatchPoint pointOf(int64_t batch, const StepChoice &choice, const BudgetPlanner &planner) {
    const auto once = static_cast<double>(planner.keepAll().time);
    return {batch, choice.arenaBytes, choice.time,
            std::max(static_cast<double>(choice.time) / once - 1, 0.0)};
  }

  Probe probe(int64_t batch) {
    const std::shared_ptr<ModelStep> step = stepAt(batch);
    BudgetPlanner &planner = step->planner();
    Probe result;
    result.stateBytes = planner.problem().pinnedBytes();
    result.keptBytes = planner.keepAll().arenaBytes;
    result.opCount = planner.problem().ops.size();
    result.lowerBound = planner.lowerBound();
    const bool mayFit = result.lowerBound <= question.budget;
    if (mayFit && result.keptBytes > question.budget)
      result.extraBound = planner.extraTimeBound(question.budget);
    if (mayFit && result.extraBound <= question.mostExtraTime)
      if (const std::optional<StepChoice> choice =
              planner.planInTime(question.budget, question.mostExtraTime)) {
        result.fits = true;
        result.point = pointOf(batch, *choice, planner);
      }
    note(planner);
    return result;
  }

  const BatchQuestion &question;
  std::map<int64_t, Probe> probes;
};

/// Where a line through two points (x, y) reaches `level`; absent where it does not rise.
std::optional<int64_t> reaching(double level, std::pair<int64_t, double> a,
                                std::pair<int64_t, double> b) {
  const double slope = (b.second - a.second) / static_cast<double>(b.first - a.first);
  const double found = static_cast<double>(a.first) + (level - a.second) / slope;
  if (!(slope > 0) || !(std::abs(found) < 1e15))
    return std::nullopt;
  return static_cast<int64_t>(found);
}

/// The search for the largest batch that fits: `fits` does, `fails` does not.
class Narrowing {
public:
  Narrowing(BatchSearch &search, const BatchQuestion &question, int64_t limit)
      : fails(limit + 1), search(search), question(question), limit(limit) {}

  void run() {
    look(1);
    const Probe &one = search.at(1);
    if (fits == 0)
      return;
    const std::pair state(int64_t{0}, static_cast<double>(one.stateBytes));
    const auto budget = static_cast<double>(question.budget);
    std::optional<int64_t> guess = reaching(budget, state, {1, static_cast<double>(one.keptBytes)});
    guess = std::clamp<int64_t>(guess.value_or(limit), 1, limit);
    look(*guess);
    while (fits + 1 < fails && !search.isExhausted() &&
           !(fails <= limit && (fails - fits) * kCloseness <= fails && isLarge()))
      look(next());
    // The curve between everything kept and the answer.
    for (const double share : {1.0 / 3, 2.0 / 3}) {
      const double between =
          static_cast<double>(*guess) *
          std::pow(static_cast<double>(fits) / static_cast<double>(*guess), share);
      if (!search.isExhausted() && between > static_cast<double>(*guess) &&
          between + 1 < static_cast<double>(fits))
        search.at(static_cast<int64_t>(between));
    }
  }

  int64_t fits = 0, fails;

private:
  bool isLarge() const { return search.all().begin()->second.opCount > kSmallStep; }

  void look(int64_t batch) {
    if (search.at(batch).fits)
      fits = std::max(fits, batch), failures = 0;
    else
      fails = std::min(fails, batch), ++failures;
  }

  /// Between the two, by what the probes say.
  int64_t next() {
    const auto inside = [&](int64_t batch) { return std::clamp(batch, fits + 1, fails - 1); };
    if (fails > limit) {
      const int64_t most = 16 * fits; // a line through small batches says little of large ones
      const int64_t further = fits + std::max<int64_t>(fits / 16, 1);
      return inside(std::min(std::max(bound().value_or(most), further), most));
    }
    const Probe &good = search.at(fits), &bad = search.at(fails);
    if (bad.lowerBound <= question.budget && bad.extraBound > question.mostExtraTime) {
      const auto found =
          reaching(question.mostExtraTime, {fits, good.extraBound}, {fails, bad.extraBound});
      // Time rises ever faster: the line reaches the limit too early.
      const int64_t margin = (fails - fits) / 8;
      return inside(std::clamp(found.value_or(fits), (fits + fails) / 2, fails - margin));
    }
    if (bad.lowerBound > question.budget)
      if (const std::optional<int64_t> found = bound(); found && *found < fails)
        return inside(std::max(*found, fits + (fails - fits) / 2));
    // Right below what nearly fits first, then further away.
    const int64_t step = (fails - fits) >> (failures == 0 ? 1 : std::max(6 - 2 * failures, 1));
    return inside(fails - std::max<int64_t>(step, 1));
  }

  /// The largest batch whose bound is within the budget, by a line through the bounds of two probes.
  std::optional<int64_t> bound() const {
    const auto &all = search.all();
    if (all.size() < 2)
      return std::nullopt;
    const auto last = std::prev(all.end()), before = std::prev(last);
    return reaching(static_cast<double>(question.budget),
                    {before->first, static_cast<double>(before->second.lowerBound)},
                    {last->first, static_cast<double>(last->second.lowerBound)});
  }

  BatchSearch &search;
  const BatchQuestion &question;
  const int64_t limit;
  int failures = 0; ///< since the last batch that fitted
};

/// The answer's plan is a whole one, as a compilation makes it: of the largest batch that has one.
void settle(BatchAnswer &answer, BatchSearch &search, Narrowing &found, int64_t limit) {
  int64_t batch = found.fits;
  std::optional<BatchPoint> point = search.wholePlan(batch);
  while (!point && batch > 1) {
    found.fails = batch;
    batch -= std::max<int64_t>(batch / kCloseness, 1);
    point = search.wholePlan(batch);
  }
  if (!point)
    return;
  // A whole plan may fit where a quick one did not.
  const bool isSmall = search.all().begin()->second.opCount <= kSmallStep;
  for (int i = 0; isSmall && i < kLookedAbove && batch < limit; ++i) {
    const std::optional<BatchPoint> larger = search.wholePlan(batch + 1);
    if (!larger) {
      found.fails = batch + 1;
      break;
    }
    point = larger;
    ++batch;
  }
  if (found.fails <= batch)
    found.fails = search.firstNotAbove(batch).value_or(limit + 1);
  found.fits = batch;
  answer.curve.push_back(*point);
}

void describe(BatchAnswer &answer, BatchSearch &search, const BatchQuestion &question,
              const Narrowing &found, int64_t limit) {
  for (const auto &[batch, probe] : search.all()) {
    if (probe.fits && batch < (answer.curve.empty() ? found.fits + 1 : found.fits))
      answer.curve.push_back(probe.point);
    if (probe.lowerBound > question.budget && !answer.provenAbove) {
      answer.provenAbove = batch;
      answer.provenBytes = probe.lowerBound;
    }
  }
  std::ranges::sort(answer.curve, {}, &BatchPoint::batch);
  // A plan of more samples, each in less time, has one of fewer beside it that takes no longer for each.
  const auto perSample = [](const BatchPoint &point) {
    return static_cast<double>(point.time) / static_cast<double>(point.batch);
  };
  for (size_t i = answer.curve.size(); i-- > 1;)
    if (answer.curve[i - 1].extraTime > 0 &&
        perSample(answer.curve[i - 1]) >= perSample(answer.curve[i]))
      answer.curve.erase(answer.curve.begin() + static_cast<ptrdiff_t>(i) - 1);
  if (answer.curve.empty())
    return;
  answer.batch = answer.curve.back().batch;
  answer.arenaBytes = answer.curve.back().arenaBytes;
  answer.extraTime = answer.curve.back().extraTime;
  if (found.fails <= limit) {
    answer.firstNot = found.fails;
    const auto probe = search.all().find(found.fails);
    answer.isTooSlow = probe != search.all().end() && probe->second.lowerBound <= question.budget;
  }
}

} // namespace

BatchAnswer findMaxBatch(const BatchQuestion &question, int64_t limit) {
  BatchSearch search(question);
  Narrowing found(search, question, limit);
  BatchAnswer answer;
  try {
    found.run();
    if (found.fits == 0) { // of one sample a whole plan decides
      found.fits = 1;
      found.fails = limit + 1;
    }
    settle(answer, search, found, limit);
    if (answer.curve.empty()) {
      answer.leastBytes = search.smallestAt(1);
      answer.isTooSlow = answer.leastBytes <= question.budget;
    }
  } catch (const Interrupted &) {
    acknowledgeInterruption();
    answer.isPartial = true;
  }
  describe(answer, search, question, found, limit);
  answer.refusals = std::move(search.refusals);
  return answer;
}

BatchAnswer findSomeBatch(const BatchQuestion &question, int64_t guess, BatchChoice tooLarge) {
  constexpr int kProbes = 6;
  for (int i = 0; i < kProbes && guess >= 1; ++i) {
    const QuickPlacement placed =
        placeWithin(question.budget, *question.stepAt(guess), *tooLarge.choice);
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
