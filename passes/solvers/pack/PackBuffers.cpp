#include "passes/solvers/pack/PackBuffers.h"
#include "ir/plan/pack/Bound.h"
#include "passes/solvers/pack/Conflict.h"
#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/HotSpots.h"
#include "passes/solvers/pack/LargeScale.h"
#include "passes/solvers/pack/Portfolio.h"
#include "passes/solvers/pack/Reduce.h"

#include <algorithm>
#include <bit>
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

/// A part of the problem that is packed on its own.
struct Part {
  Leaf leaf;
  std::vector<Bytes> bases; ///< by position in leaf.items
  Bytes height = std::numeric_limits<Bytes>::max();
  int64_t pairs = 0;                        ///< overlapping pairs: a straight descent visits each
  std::unique_ptr<SearchInstance> instance; ///< built when first needed
  std::vector<double> failures;             ///< by section, see SearchOptions
  std::vector<int32_t> settings;            ///< portfolio indices, the last successful one first
  Bytes failedAt = -1;                      ///< proven: no packing within this many bytes
  Bytes exhaustedAt = -1;                   ///< the search finds nothing within this many bytes
};

class Driver {
public:
  Driver(const Problem &problem, const PackOptions &options)
      : problem(problem), options(options), start(std::chrono::steady_clock::now()),
        stop([this] { return shouldStop(); }) {}

  PackResult run() {
    result.lowerBound = lowerBound(problem);
    model = makeModel(problem);
    for (const Item &item : model.items)
      unit =
          std::gcd(std::gcd(unit, item.size), std::gcd(item.alignment, item.fixedBase.value_or(0)));
    workLimit = scaledBudget();
    GreedyResult greedy = packGreedily();
    best = greedy.bases;
    result.method = greedy.method;
    if (best.empty() && !model.items.empty()) {
      result.status = PackStatus::Infeasible; // fixed offsets collide
      return std::move(result);
    }
    bestHeight = greedy.height;
    if (isOpen()) {
      splitIntoParts();
      search();
    }
    // Padding under the ground cost less than one grain; the last bytes are looked for without it.
    if (isOpen() && grain > 1) {
      crown();
      joinIntoOnePart();
      workLimit = std::min(workLimit, result.work + (workLimit - result.work) / 4);
      if (isOpen())
        search();
    }
    finishGreedy(std::move(greedy));
    return finish();
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

  /// What the searches start from: never above the best of the twelve greedy pairs, up to
  /// veryManyItems.
  GreedyResult packGreedily() {
    constexpr size_t manyItems = 20'000;
    const bool isVeryLarge = model.items.size() > veryManyItems;
    if (isVeryLarge)
      if (GreedyResult straight = descendStraight(); !straight.bases.empty())
        return straight;
    if (!isPlain(model) || model.items.size() <= manyItems)
      return bestOfGreedy(model, goal(), {}, isVeryLarge ? pairBudget : std::nullopt, &stop);
    GreedyResult greedy = packLargeScale(model, goal(), result.work, stop);
    const bool isClose = greedy.method != "bands" && greedy.height - goal() <= goal() / 100;
    if (greedy.height > goal() && (isClose || !isVeryLarge))
      greedy = bestOfGreedy(model, goal(), std::move(greedy),
                            isVeryLarge ? pairBudget : std::nullopt, &stop);
    if (greedy.height <= goal() || isVeryLarge)
      return greedy;
    constexpr int64_t repairWork = 200'000'000;
    greedy.bases = lowerHotSpots(model, std::move(greedy.bases), goal(),
                                 std::min(repairWork, workLimit), result.work, stop);
    if (const Bytes height = heightOfBases(model, greedy.bases); height < greedy.height) {
      greedy.height = height;
      greedy.method += ", hot spots";
    }
    return greedy;
  }

  /// Where few of very many items are live at a time, a straight descent of the canonical search
  /// takes about as long as one greedy pair, and often ends at the bound. Empty where none ends
  /// within one percent of it.
  GreedyResult descendStraight() {
    constexpr size_t mostSettings = 4;
    std::vector<int32_t> all(model.items.size());
    std::iota(all.begin(), all.end(), 0);
    const int64_t effort = workPerLostPair * overlappingPairs(model, all);
    if (effort > (workLimit - result.work) / 3)
      return {};
    const SearchInstance instance(model, all);
    for (const Bytes target : {goal(), goal() + goal() / 100}) {
      std::vector<double> failures;
      size_t tried = 0;
      for (SearchOptions search : searchPortfolio()) {
        if (search.pick == SearchPick::Tightest)
          continue; // a node costs all sections
        if (++tried > mostSettings || exhausted())
          break;
        search.nodeLimit = instance.freeItems() + firstEffort;
        search.workLimit = std::min(effort, workLimit - result.work);
        search.failures = &failures;
        SearchResult found = instance.search(target, search, stop);
        result.work += found.work + 1;
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
  void finishGreedy(GreedyResult greedy) {
    constexpr int64_t workPerItem = 50'000; // of all twelve
    const auto count = static_cast<int64_t>(model.items.size());
    if (isOpen() && model.items.size() > veryManyItems && !shouldStop() &&
        workPerItem * count <= workLimit - result.work) {
      if (bestHeight < greedy.height) {
        greedy.bases = best;
        greedy.height = bestHeight;
        greedy.method = result.method;
      }
      greedy = bestOfGreedy(model, goal(), std::move(greedy));
      best = greedy.bases;
      bestHeight = greedy.height;
      result.method = greedy.method;
    }
    result.greedyPairs = isOpen() ? std::popcount(greedy.done) : 12;
  }

  /// Nothing lower than this is looked for.
  Bytes goal() const { return std::max(result.lowerBound, options.capacity.value_or(0)); }

  bool isOpen() const {
    return bestHeight > goal() && !(options.capacity && *options.capacity < result.lowerBound);
  }

  bool shouldStop() const {
    if (options.cancel && options.cancel->load(std::memory_order_relaxed))
      return true;
    if (!options.timeoutSeconds)
      return false;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return spent.count() >= *options.timeoutSeconds;
  }

  bool exhausted() const { return result.work >= workLimit || shouldStop(); }

  void addPart(Leaf leaf) {
    Part part;
    part.pairs = overlappingPairs(model, leaf.items);
    part.leaf = std::move(leaf);
    part.settings.resize(searchPortfolio().size());
    std::iota(part.settings.begin(), part.settings.end(), 0);
    // On training steps of this size straight descents that put items of crowded sections and large
    // areas first reach the bound most often.
    if (isLarge(part))
      for (const char *front : {"lowest ZPS", "lowest PAW", "lowest APW"}) {
        const auto chosen =
            std::find_if(part.settings.begin(), part.settings.end(), [&](int32_t setting) {
              return describe(searchPortfolio()[setting]) == front;
            });
        std::rotate(part.settings.begin(), chosen, chosen + 1);
      }
    parts.push_back(std::move(part));
  }

  void splitIntoParts() {
    Reduction reduction = reduce(model);
    // A straight descent through thousands of items ends well more often with the thin ones that
    // live throughout still to come than with them at the bottom.
    const auto most = std::max_element(
        reduction.leaves.begin(), reduction.leaves.end(),
        [](const Leaf &left, const Leaf &right) { return left.items.size() < right.items.size(); });
    if (most != reduction.leaves.end() && isLarge(most->items.size()) &&
        2 * most->items.size() > model.items.size()) {
      joinIntoOnePart();
      return;
    }
    sunk = std::move(reduction.bases);
    grain = reduction.grain;
    std::vector<char> inLeaf(model.items.size(), 0);
    for (Leaf &leaf : reduction.leaves) {
      for (int32_t index : leaf.items)
        inLeaf[index] = 1;
      addPart(std::move(leaf));
    }
    if (std::all_of(parts.begin(), parts.end(),
                    [](const Part &part) { return part.leaf.ground == 0; })) {
      adopt(best);
      return;
    }
    // Greedy heights of the parts on top of the sunk items.
    Model grounded = model;
    for (size_t i = 0; i < model.items.size(); ++i)
      if (!inLeaf[i])
        grounded.items[i].fixedBase = sunk[i];
    int64_t budget = 100'000'000; // range operations
    for (GreedyOrder order : {GreedyOrder::SizeStart, GreedyOrder::Area, GreedyOrder::Length})
      if (partsHeight() > goal() && !stop())
        adopt(placeInOrder(grounded, greedyOrder(grounded, order), GreedyFit::First,
                           {.budget = &budget, .stop = &stop}));
    keepIfLower();
  }

  /// All items in one part, with nothing sunk.
  void joinIntoOnePart() {
    parts.clear();
    grain = 1;
    sunk.assign(model.items.size(), 0);
    Leaf leaf;
    leaf.items.resize(model.items.size());
    std::iota(leaf.items.begin(), leaf.items.end(), 0);
    addPart(std::move(leaf));
    adopt(best);
  }

  /// With one alignment throughout, moves the item that needs the most padding among those that
  /// always live from below everything else to the top, where it needs none.
  void crown() {
    int32_t chosen = -1;
    Bytes most = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(model.items.size()); ++i) {
      const Item &item = model.items[i];
      const Bytes padding = alignUp(item.size, item.alignment) - item.size;
      if (item.isRectangle() && item.begin == 0 && item.end == model.sections && padding > most) {
        chosen = i;
        most = padding;
      }
    }
    if (chosen < 0)
      return;
    const Item &item = model.items[chosen];
    const Bytes down = alignUp(item.size, item.alignment);
    std::vector<Bytes> bases = best;
    Bytes top = 0;
    for (size_t i = 0; i < bases.size(); ++i) {
      if (static_cast<int32_t>(i) == chosen)
        continue;
      bases[i] -= bases[i] > best[chosen] ? down : 0;
      top = std::max(top, bases[i] + model.items[i].size);
    }
    bases[chosen] = alignUp(top, item.alignment);
    if (bases[chosen] + item.size >= bestHeight)
      return;
    bestHeight = bases[chosen] + item.size;
    best = std::move(bases);
  }

  /// Takes over `bases` for the parts in which they are lower than what is known.
  void adopt(const std::vector<Bytes> &bases) {
    if (bases.empty())
      return;
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
    Bytes height = heightOfBases(model, sunk);
    for (const Part &part : parts)
      height = std::max(height, part.height);
    return height;
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

  /// True when `part` may be searched, and then its instance is there.
  bool prepare(Part &part) {
    if (part.leaf.items.size() > veryManyItems ||
        workPerPair * part.pairs > workLimit - result.work)
      return false;
    if (!part.instance)
      part.instance = std::make_unique<SearchInstance>(model, part.leaf.items, part.leaf.ground);
    return true;
  }

  static bool isLarge(size_t items) { return items > static_cast<size_t>(manyItemsOfPart); }
  static bool isLarge(const Part &part) { return isLarge(part.leaf.items.size()); }

  /// One search for a packing of `part` within `target`, with `effort` nodes beyond one straight
  /// descent, taken over when found.
  SearchOutcome attempt(Part &part, int32_t setting, Bytes target, int64_t effort) {
    SearchOptions search = searchPortfolio()[setting];
    const bool isTightest = search.pick == SearchPick::Tightest;
    if (isTightest && isLarge(part))
      return SearchOutcome::Stopped; // a node costs all sections
    // A second run of the same setting would repeat the first; some noise makes it a new one.
    if (effort != firstEffort && (isTightest || isDescending(part))) {
      search.noise = 0.3;
      search.seed = static_cast<uint64_t>(effort);
    }
    search.nodeLimit = part.instance->freeItems() + effort;
    // One setting that gets lost leaves something for the next ones.
    search.workLimit = (workLimit - result.work) / 3 * 2;
    if (isLarge(part))
      search.workLimit =
          std::min(search.workLimit, workPerLostPair * part.pairs * (effort / firstEffort));
    search.failures = &part.failures;
    SearchResult found = part.instance->search(target, search, stop);
    result.work += found.work + 1;
    if (found.outcome == SearchOutcome::Exhausted) {
      part.exhaustedAt = std::max(part.exhaustedAt, target);
      if (part.instance->isComplete() && target % grain == 0)
        part.failedAt = std::max(part.failedAt, target);
    } else if (found.outcome == SearchOutcome::Found) {
      part.bases = std::move(found.bases);
      part.height = 0;
      for (size_t k = 0; k < part.bases.size(); ++k)
        part.height = std::max(part.height, part.bases[k] + model.items[part.leaf.items[k]].size);
      result.method = "search " + describe(search);
    }
    return found.outcome;
  }

  /// Tries to bring `part` to at most `target` with the settings of the portfolio in turn.
  bool improve(Part &part, Bytes target, int64_t effort) {
    if (part.height <= target)
      return true;
    if (target <= part.exhaustedAt || !prepare(part))
      return false;
    // Deciding, the front of the portfolio solves most; the rest is worth a try once that has
    // failed twice. Minimizing, targets fall to whoever finds a way: all are asked from the start.
    const bool fewFirst = options.capacity || isDescending(part);
    const size_t most = static_cast<size_t>(10 * effort / firstEffort / 2);
    const size_t tried = std::min(part.settings.size(),
                                  std::max<size_t>(fewFirst ? 10 : part.settings.size(), most));
    for (size_t i = 0; i < tried && !exhausted(); ++i) {
      const int32_t setting = part.settings[i];
      const SearchOutcome outcome = attempt(part, setting, target, effort);
      if (outcome == SearchOutcome::Exhausted)
        return false;
      if (outcome != SearchOutcome::Found)
        continue;
      part.settings.erase(part.settings.begin() + static_cast<int64_t>(i));
      part.settings.insert(part.settings.begin(), setting);
      return true;
    }
    return false;
  }

  /// Brings all parts to `target`; raises the proven bound where one is proven not to go.
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

  void search() {
    for (int64_t effort = firstEffort; !exhausted() && isOpen(); effort *= 2) {
      const int64_t before = result.work;
      options.capacity ? decideOnce(effort) : minimizeOnce(effort);
      if (result.work == before)
        return; // nothing is left to try
    }
  }

  void decideOnce(int64_t effort) {
    const Bytes target = *options.capacity / grain * grain;
    if (target >= result.lowerBound)
      improveAll(target, effort);
  }

  /// Where a portfolio's worth of searches takes long, targets fall step by step instead of by
  /// bisection: a target that no setting reaches costs all of them.
  bool isDescending(const Part &part) const {
    return !options.capacity && part.leaf.items.size() > static_cast<size_t>(itemsToDescend);
  }

  /// Each setting in turn tries to lower the tallest part: half way to the bound, else by a little.
  void descendOnce(int64_t effort) {
    const Bytes step = std::max(unit, grain), floor = alignUp(result.lowerBound, grain);
    for (size_t i = 0; i < searchPortfolio().size() && isOpen() && !exhausted(); ++i) {
      Part &part =
          *std::max_element(parts.begin(), parts.end(), [](const Part &left, const Part &right) {
            return left.height < right.height;
          });
      if (!prepare(part))
        return;
      for (const int64_t share : {50, 95})
        for (bool isFound = true; isFound && part.height > floor + step && !exhausted();) {
          const Bytes above = part.height - floor;
          const Bytes target =
              floor + std::min(above / 100 * share / step, above / step - 1) * step;
          isFound = target > part.exhaustedAt &&
                    attempt(part, part.settings[i], target, effort) == SearchOutcome::Found;
        }
      keepIfLower();
    }
  }

  /// First the bound itself, then bisection between it and the best known height.
  void minimizeOnce(int64_t effort) {
    const Bytes step = std::max(unit, grain);
    Bytes target = alignUp(result.lowerBound, grain);
    if (std::any_of(parts.begin(), parts.end(),
                    [&](const Part &part) { return isDescending(part); })) {
      improveAll(target, effort);
      descendOnce(effort);
      return;
    }
    Bytes failed = target - step;
    while (target < bestHeight && !exhausted()) {
      if (!improveAll(target, effort))
        failed = target;
      failed = std::max(failed, alignUp(result.lowerBound, grain) - step);
      target = failed + std::max(step, (bestHeight - failed) / 2 / step * step);
    }
  }

  PackResult finish() {
    result.solution = model.solution(best);
    const Bytes height = result.solution->height;
    if (!options.capacity || height <= *options.capacity) {
      result.status = height <= result.lowerBound ? PackStatus::Optimal : PackStatus::Feasible;
    } else if (result.lowerBound > *options.capacity) {
      result.status = PackStatus::Infeasible;
      result.solution.reset();
    } else {
      result.status = PackStatus::Unknown;
    }
    return std::move(result);
  }

  static constexpr std::optional<int64_t> pairBudget = 200'000'000; ///< beyond veryManyItems
  static constexpr int64_t firstEffort = 500;
  static constexpr int32_t manyItemsOfPart = 4000;
  static constexpr int32_t itemsToDescend = 500;
  static constexpr int64_t workPerPair = 5;      ///< of a straight descent, about
  static constexpr int64_t workPerLostPair = 30; ///< what a search of a large part may take

  const Problem &problem;
  const PackOptions &options;
  const std::chrono::steady_clock::time_point start;
  const std::function<bool()> stop;
  PackResult result;
  Model model;
  Bytes unit = 0;  ///< every height is a multiple of this
  Bytes grain = 1; ///< of the present split, see Reduction::grain
  int64_t workLimit = 0;
  std::vector<Bytes> best, sunk;
  Bytes bestHeight = 0;
  std::vector<Part> parts;
};

} // namespace

PackResult packBuffers(const Problem &problem, const PackOptions &options) {
  requireValid(problem);
  PackResult result = Driver(problem, options).run();
  if (result.status == PackStatus::Infeasible && options.explain) {
    constexpr int64_t workPerProof = 20'000'000;
    Conflict conflict = findConflict(problem, options.capacity, workPerProof, options);
    result.conflict = std::move(conflict.buffers);
    result.conflictIsMinimal = conflict.isMinimal;
  }
  return result;
}

} // namespace stow::pack
