#include "passes/solvers/pack/PackBuffers.h"
#include "ir/plan/pack/Bound.h"
#include "passes/solvers/pack/Chains.h"
#include "passes/solvers/pack/Conflict.h"
#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/HotSpots.h"
#include "passes/solvers/pack/LargeFirst.h"
#include "passes/solvers/pack/LargeScale.h"
#include "passes/solvers/pack/Layers.h"
#include "passes/solvers/pack/Outward.h"
#include "passes/solvers/pack/PartSearch.h"
#include "passes/solvers/pack/PieceSearch.h"
#include "passes/solvers/pack/Portfolio.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>
#include <utility>

namespace stow::pack {

const char *name(PackStatus status) {
  switch (status) {
  case PackStatus::Optimal:
    return "optimal";
  case PackStatus::Feasible:
    return "feasible";
  case PackStatus::Infeasible:
    return "infeasible";
  case PackStatus::Unknown:
    return "unknown";
  }
  return "";
}

double PackResult::gap() const {
  if (!solution || lowerBound == 0)
    return 0;
  return static_cast<double>(solution->height - lowerBound) / static_cast<double>(lowerBound);
}

namespace {

class Driver {
public:
  Driver(const Problem &problem, const StorageTable &table, const PackOptions &options)
      : options(options), start(std::chrono::steady_clock::now()), model(makeModel(problem, table)),
        incumbent{.model = model,
                  .capacity = options.capacity,
                  .stop = [this] { return shouldStop(); },
                  .bases = {},
                  .method = {},
                  .lowerBound = lowerBound(problem, table),
                  .workLimit = scaledBudget()} {}

  PackResult run() {
    GreedyResult greedy = packGreedily();
    if (greedy.bases.empty() && !model.items.empty()) {
      PackResult collision; // of fixed offsets
      collision.status = PackStatus::Infeasible;
      collision.lowerBound = incumbent.lowerBound;
      return collision;
    }
    take(greedy);
    improve();
    finishGreedy(greedy);
    return finish(greedy);
  }

private:
  /// Steps for a problem of this size; see PackOptions::workBudget.
  int64_t scaledBudget() const {
    if (model.items.size() > veryManyItems)
      return options.workBudget; // for repairs: no search goes through so many
    constexpr double itemsPerBudget = 15'000, mostBudgets = 3;
    const double budgets =
        std::clamp(static_cast<double>(model.items.size()) / itemsPerBudget, 1.0, mostBudgets);
    constexpr auto unlimitedWork = std::numeric_limits<int64_t>::max() / 4;
    return static_cast<int64_t>(std::min(static_cast<double>(unlimitedWork),
                                         budgets * static_cast<double>(options.workBudget)));
  }

  /// Runs `search` with one of `share` parts of the work that is left; true when it used it up.
  template <typename Search> bool spend(int64_t share, Search search) {
    const int64_t limit = incumbent.workLimit;
    incumbent.workLimit = incumbent.work + (limit - incumbent.work) / share;
    search();
    return incumbent.work >= std::exchange(incumbent.workLimit, limit);
  }

  /// By the search; where its first part does not suffice for many items, by layers; behind it, with
  /// half as much work again, by the order of the large items where all are too many for layers; where
  /// storages have several pieces, half of the work is for these, or all that the search leaves.
  void improve() {
    constexpr int64_t shareBeforePieces = 64, shareOfPieces = 2, shareBeforeLayers = 5,
                      shareOfLarge = 2;
    if (!incumbent.isOpen())
      return;
    const bool hasMany = model.items.size() > fewItems;
    if (hasMany && canPackInLayers(incumbent)) {
      spend(shareBeforeLayers, [&] { searchParts(incumbent); });
      packInLayers(incumbent);
      return;
    }
    if (isForPieces(model)) {
      const bool hasMore = spend(shareBeforePieces, [&] { searchParts(incumbent); });
      spend(hasMore ? shareOfPieces : 1, [&] { searchPieces(incumbent); });
    }
    if (incumbent.isOpen())
      searchParts(incumbent);
    if (hasMany && model.items.size() <= veryManyItems && isChainable(model) &&
        incumbent.isOpen()) {
      incumbent.workLimit = incumbent.work + scaledBudget() / shareOfLarge;
      packLargeFirst(incumbent);
    }
  }

  void take(const GreedyResult &greedy) {
    incumbent.bases = greedy.bases;
    incumbent.height = greedy.height;
    incumbent.method = greedy.method;
  }

  /// What the searches start from: never above the best of the twelve greedy pairs, up to
  /// veryManyItems.
  GreedyResult packGreedily() {
    constexpr size_t manyItems = 20'000;
    constexpr int64_t outwardBudget = 100'000'000; // range operations
    const bool isVeryLarge = model.items.size() > veryManyItems;
    const Bytes goal = incumbent.goal();
    GreedyResult greedy = descendStraight();
    if (!greedy.bases.empty())
      return greedy;
    if (model.items.size() > fewItems && !isVeryLarge)
      greedy = packOutward(model, goal, outwardBudget, incumbent.stop);
    if (!greedy.bases.empty() && greedy.height <= goal)
      return greedy;
    if (!isPlain(model) || model.items.size() <= manyItems)
      return bestOfGreedy(model, goal, std::move(greedy), isVeryLarge ? pairBudget : std::nullopt,
                          &incumbent.stop);
    if (GreedyResult large = packLargeScale(model, goal, incumbent.work, incumbent.stop);
        greedy.bases.empty() || large.height < greedy.height)
      greedy = std::move(large);
    const bool isClose = greedy.method != "bands" && greedy.height - goal <= goal / 100;
    if (greedy.height > goal && (isClose || !isVeryLarge))
      greedy = bestOfGreedy(model, goal, std::move(greedy), isVeryLarge ? pairBudget : std::nullopt,
                            &incumbent.stop);
    if (greedy.height <= goal || isVeryLarge)
      return greedy;
    constexpr int64_t repairWork = 200'000'000;
    greedy.bases =
        lowerHotSpots(model, std::move(greedy.bases), goal,
                      std::min(repairWork, incumbent.workLimit), incumbent.work, incumbent.stop);
    if (const Bytes height = heightOfBases(model, greedy.bases); height < greedy.height) {
      greedy.height = height;
      greedy.method += ", hot spots";
    }
    return greedy;
  }

  /// Where few of many items are live at a time, a straight descent of the canonical search takes
  /// about as long as one greedy pair, and often ends at the goal. Empty where it does not; of very
  /// many items one percent above it will do.
  GreedyResult descendStraight() {
    constexpr size_t mostSettings = 4, manyItems = 4'000, fewLive = 64;
    if (model.items.size() <= manyItems)
      return {};
    std::vector<int32_t> all(model.items.size());
    std::iota(all.begin(), all.end(), 0);
    const int64_t pairs = overlappingPairs(model, all), effort = workPerLostPair * pairs;
    if (static_cast<size_t>(pairs) > fewLive * all.size() ||
        effort > (incumbent.workLimit - incumbent.work) / 3)
      return {};
    const SearchInstance instance(model, all);
    const Bytes goal = incumbent.goal();
    for (const Bytes target : {goal, goal + goal / 100}) {
      if (target > goal && all.size() <= veryManyItems)
        break;
      std::vector<double> failures;
      size_t tried = 0;
      for (SearchOptions search : searchPortfolio()) {
        if (search.pick == SearchPick::Tightest)
          continue; // a node costs all sections
        if (++tried > mostSettings || incumbent.isExhausted())
          break;
        search.nodeLimit = instance.freeItems() + firstEffort;
        search.workLimit = std::min(effort, incumbent.workLimit - incumbent.work);
        search.failures = &failures;
        SearchResult found = instance.search(target, search, incumbent.stop);
        incumbent.work += found.work + 1;
        if (found.outcome != SearchOutcome::Found)
          continue;
        GreedyResult straight;
        straight.height = heightOfBases(model, found.bases);
        straight.bases = std::move(found.bases);
        straight.method = "search " + describe(search);
        return straight;
      }
    }
    return {};
  }

  /// Beyond veryManyItems the twelve pairs take minutes; they are left to who raises the work
  /// budget.
  void finishGreedy(GreedyResult &greedy) {
    constexpr int64_t workPerItem = 50'000; // of all twelve
    const auto count = static_cast<int64_t>(model.items.size());
    if (!incumbent.isOpen() || model.items.size() <= veryManyItems || incumbent.stop() ||
        workPerItem * count > incumbent.workLimit - incumbent.work)
      return;
    if (incumbent.height < greedy.height) {
      greedy.bases = incumbent.bases;
      greedy.height = incumbent.height;
      greedy.method = incumbent.method;
    }
    greedy = bestOfGreedy(model, incumbent.goal(), std::move(greedy));
    take(greedy);
  }

  bool shouldStop() const {
    if (options.cancel && options.cancel->load(std::memory_order_relaxed))
      return true;
    if (!options.timeoutSeconds)
      return false;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return spent.count() >= *options.timeoutSeconds;
  }

  PackResult finish(const GreedyResult &greedy) const {
    PackResult result;
    result.lowerBound = incumbent.lowerBound;
    result.work = incumbent.work;
    result.method = incumbent.method;
    result.greedyPairs = incumbent.isOpen() ? std::popcount(greedy.done) : 12;
    result.solution = model.solution(incumbent.bases);
    const Bytes height = result.solution->height;
    if (!options.capacity || height <= *options.capacity) {
      result.status = height <= result.lowerBound ? PackStatus::Optimal : PackStatus::Feasible;
    } else if (result.lowerBound > *options.capacity) {
      result.status = PackStatus::Infeasible;
      result.solution.reset();
    } else {
      result.status = PackStatus::Unknown;
    }
    return result;
  }

  /// A search of fewer items takes less time than a few passes over all of them.
  static constexpr size_t fewItems = 500;
  static constexpr std::optional<int64_t> pairBudget = 200'000'000; ///< beyond veryManyItems

  const PackOptions &options;
  const std::chrono::steady_clock::time_point start;
  const Model model;
  Incumbent incumbent;
};

} // namespace

PackStatus packStorages(const Problem &problem, const StorageTable &table,
                        const PackOptions &options) {
  return Driver(problem, table, options).run().status;
}

PackResult packBuffers(const Problem &problem, const PackOptions &options) {
  requireValid(problem);
  PackResult result = Driver(problem, storageTable(problem), options).run();
  if (result.status == PackStatus::Infeasible && options.explain) {
    constexpr int64_t leastWork = 20'000'000, mostWork = 2'000'000'000;
    const auto count = static_cast<int64_t>(problem.buffers.size());
    const int64_t workPerProof =
        std::max(leastWork, std::min(mostWork, options.workBudget) / std::max<int64_t>(1, count));
    Conflict conflict = findConflict(problem, options.capacity, workPerProof, options);
    result.conflict = std::move(conflict.buffers);
    result.conflictIsMinimal = conflict.isMinimal;
  }
  return result;
}

PackResult packLowest(const Problem &problem, const PackOptions &options) {
  const auto start = std::chrono::steady_clock::now();
  PackOptions deciding = options;
  deciding.capacity.reset();
  PackResult lowest = packBuffers(problem, deciding);
  if (lowest.status != PackStatus::Feasible)
    return lowest;
  // Bisection spends work on heights above the bound, a decision all of it on the bound itself.
  deciding.capacity = lowest.lowerBound;
  deciding.explain = false;
  if (options.timeoutSeconds) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    deciding.timeoutSeconds = *options.timeoutSeconds - spent.count();
    if (*deciding.timeoutSeconds <= 0)
      return lowest;
  }
  PackResult decided = packBuffers(problem, deciding);
  lowest.work += decided.work;
  lowest.lowerBound = std::max(lowest.lowerBound, decided.lowerBound);
  if (decided.solution && decided.solution->height < lowest.solution->height) {
    lowest.solution = std::move(decided.solution);
    lowest.method = std::move(decided.method);
  }
  if (lowest.solution->height <= lowest.lowerBound)
    lowest.status = PackStatus::Optimal;
  return lowest;
}

} // namespace stow::pack
