#include "passes/solvers/pack/PackBuffers.h"
#include "ir/plan/pack/Bound.h"
#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/Portfolio.h"
#include "passes/solvers/pack/Reduce.h"

#include <algorithm>
#include <chrono>
#include <numeric>

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

/// Parts with more overlapping pairs are left to the greedy orders: the search lists all pairs.
constexpr int64_t maxPairs = 60'000'000;

/// A part of the problem that is packed on its own.
struct Part {
  Leaf leaf;
  std::vector<Bytes> bases; ///< by position in leaf.items
  Bytes height = 0;
  std::unique_ptr<SearchInstance> instance; ///< built when first needed
  std::vector<int32_t> settings;            ///< portfolio indices, the last successful one first
  int64_t pairs = 0;                        ///< overlapping pairs within the part
  Bytes failedAt = -1;                      ///< proven: no packing within this many bytes
};

class Driver {
public:
  Driver(const Problem &problem, const PackOptions &options)
      : problem(problem), options(options), start(std::chrono::steady_clock::now()),
        stop([this] { return shouldStop(); }) {}

  PackResult run() {
    result.lowerBound = lowerBound(problem);
    model = makeModel(problem);
    // Every height below is the end of an item, hence a multiple of this apart from the bound.
    for (const Item &item : model.items)
      unit =
          std::gcd(std::gcd(unit, item.size), std::gcd(item.alignment, item.fixedBase.value_or(0)));
    best = bestOfGreedy(model, goal(), stop);
    result.method = "greedy";
    if (best.empty() && !model.items.empty()) {
      result.status = PackStatus::Infeasible;
      return std::move(result);
    }
    bestHeight = heightOfBases(model, best);
    if (bestHeight > goal() && !(options.capacity && *options.capacity < result.lowerBound)) {
      makeParts();
      options.capacity ? decide() : minimize();
    }
    return finish();
  }

private:
  /// Nothing lower than this is looked for.
  Bytes goal() const { return std::max(result.lowerBound, options.capacity.value_or(0)); }

  bool shouldStop() const {
    if (options.cancel && options.cancel->load(std::memory_order_relaxed))
      return true;
    if (!options.timeoutSeconds)
      return false;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return spent.count() >= *options.timeoutSeconds;
  }

  bool exhausted() const { return result.work >= options.workBudget || shouldStop(); }

  void makeParts() {
    sunk.assign(model.items.size(), 0);
    for (Leaf &leaf : reduce(model, sunk)) {
      Part part;
      part.pairs = overlappingPairs(model, leaf.items);
      part.leaf = std::move(leaf);
      part.height = std::numeric_limits<Bytes>::max();
      part.settings.resize(searchPortfolio().size());
      std::iota(part.settings.begin(), part.settings.end(), 0);
      parts.push_back(std::move(part));
    }
    // Each part starts from its own best greedy pair, on top of the sunk items.
    Model grounded = model;
    std::vector<char> inLeaf(model.items.size(), 0);
    for (const Part &part : parts)
      for (int32_t index : part.leaf.items)
        inLeaf[index] = 1;
    for (size_t i = 0; i < model.items.size(); ++i)
      if (!inLeaf[i])
        grounded.items[i].fixedBase = sunk[i];
    for (GreedyOrder order : greedyOrders) {
      const std::vector<int32_t> sequence = greedyOrder(grounded, order);
      for (GreedyFit fit : greedyFits) {
        adopt(placeInOrder(grounded, sequence, fit));
        if (partsHeight() <= goal() || stop())
          return;
      }
    }
  }

  /// Takes over `bases` for the parts in which they are lower than what is known.
  void adopt(const std::vector<Bytes> &bases) {
    for (Part &part : parts) {
      Bytes height = 0;
      for (int32_t index : part.leaf.items)
        height = std::max(height, bases[index] + model.items[index].size);
      if (height >= part.height)
        continue;
      part.height = height;
      part.bases.clear();
      for (int32_t index : part.leaf.items)
        part.bases.push_back(bases[index]);
    }
  }

  /// The height of the packing made of the sunk items and all parts.
  Bytes partsHeight() const {
    Bytes height = 0;
    for (size_t i = 0; i < sunk.size(); ++i)
      height = std::max(height, sunk[i] + model.items[i].size);
    for (const Part &part : parts)
      height = std::max(height, part.height);
    return height;
  }

  /// Tries to bring `part` to at most `target`, with `effort` nodes beyond one straight descent.
  bool improve(Part &part, Bytes target, int64_t effort) {
    if (part.height <= target)
      return true;
    if (target <= part.failedAt)
      return false;
    if (!part.instance && part.pairs > maxPairs)
      return false;
    if (!part.instance)
      part.instance = std::make_unique<SearchInstance>(model, part.leaf.items, part.leaf.ground);
    for (size_t i = 0; i < part.settings.size(); ++i) {
      if (exhausted())
        return false;
      const int32_t setting = part.settings[i];
      SearchOptions search = searchPortfolio()[setting];
      search.nodeLimit = part.instance->freeItems() + effort;
      search.workLimit = options.workBudget - result.work;
      SearchResult found = part.instance->search(target, search, stop);
      result.work += found.work + 1;
      if (found.outcome == SearchOutcome::Exhausted) {
        if (part.instance->isComplete() && part.leaf.exact)
          part.failedAt = target;
        return false;
      }
      if (found.outcome != SearchOutcome::Found)
        continue;
      part.bases = std::move(found.bases);
      part.height = 0;
      for (size_t k = 0; k < part.bases.size(); ++k)
        part.height = std::max(part.height, part.bases[k] + model.items[part.leaf.items[k]].size);
      part.settings.erase(part.settings.begin() + i);
      part.settings.insert(part.settings.begin(), setting);
      result.method = "search " + describe(search);
      return true;
    }
    return false;
  }

  /// Brings all parts to `target`, the tallest first. Updates the proven bound on failure.
  bool improveAll(Bytes target, int64_t effort) {
    for (Part &part : parts)
      if (!improve(part, target, effort)) {
        if (part.failedAt >= target)
          result.lowerBound = std::max(result.lowerBound, alignUp(target + 1, unit));
        return false;
      }
    keepIfLower();
    return true;
  }

  void keepIfLower() {
    const Bytes height = partsHeight();
    if (height >= bestHeight)
      return;
    best = sunk;
    for (const Part &part : parts)
      for (size_t k = 0; k < part.bases.size(); ++k)
        best[part.leaf.items[k]] = part.bases[k];
    bestHeight = height;
  }

  void decide() {
    keepIfLower();
    for (int64_t effort = firstEffort; !exhausted() && bestHeight > *options.capacity; effort *= 2)
      if (improveAll(*options.capacity, effort) || result.lowerBound > *options.capacity)
        return;
  }

  /// At each effort first the bound itself, then bisection between it and the best known height.
  void minimize() {
    keepIfLower();
    for (int64_t effort = firstEffort; !exhausted() && bestHeight > result.lowerBound;
         effort *= 2) {
      Bytes failed = result.lowerBound - 1;
      Bytes target = result.lowerBound;
      while (failed + unit < bestHeight && !exhausted()) {
        if (!improveAll(target, effort))
          failed = std::max(target, result.lowerBound - 1);
        target = failed + std::max<Bytes>(unit, (bestHeight - failed) / 2 / unit * unit);
      }
    }
  }

  PackResult finish() {
    result.solution = model.solution(best);
    const Bytes height = result.solution->height;
    result.lowerBound = std::min(result.lowerBound, std::max(height, result.lowerBound));
    if (options.capacity && height > *options.capacity) {
      const bool proven = result.lowerBound > *options.capacity;
      result.status = proven ? PackStatus::Infeasible : PackStatus::Unknown;
      if (proven)
        result.solution.reset();
    } else {
      result.status = height <= result.lowerBound ? PackStatus::Optimal : PackStatus::Feasible;
    }
    return std::move(result);
  }

  static constexpr int64_t firstEffort = 500;

  const Problem &problem;
  const PackOptions &options;
  const std::chrono::steady_clock::time_point start;
  const std::function<bool()> stop;
  PackResult result;
  Model model;
  Bytes unit = 0;
  std::vector<Bytes> best, sunk;
  Bytes bestHeight = 0;
  std::vector<Part> parts;
};

} // namespace

PackResult packBuffers(const Problem &problem, const PackOptions &options) {
  requireValid(problem);
  return Driver(problem, options).run();
}

} // namespace stow::pack
