#include "passes/solvers/pack/PartSearch.h"
#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/LargeScale.h"
#include "passes/solvers/pack/Portfolio.h"
#include "passes/solvers/pack/Reduce.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

namespace stow::pack {

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

class PartSearch {
public:
  explicit PartSearch(Incumbent &incumbent) : incumbent(incumbent), model(incumbent.model) {
    for (const Item &item : model.items)
      unit =
          std::gcd(std::gcd(unit, item.size), std::gcd(item.alignment, item.fixedBase.value_or(0)));
  }

  void run() {
    splitIntoParts();
    search();
    if (!incumbent.isOpen() || grain == 1)
      return;
    // Padding under the ground cost less than one grain; the last bytes are looked for without it.
    crown();
    joinIntoOnePart();
    incumbent.workLimit =
        std::min(incumbent.workLimit, incumbent.work + (incumbent.workLimit - incumbent.work) / 4);
    if (incumbent.isOpen())
      search();
  }

private:
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
      adopt(incumbent.bases);
      return;
    }
    // Greedy heights of the parts on top of the sunk items.
    Model grounded = model;
    for (size_t i = 0; i < model.items.size(); ++i)
      if (!inLeaf[i])
        grounded.items[i].fixedBase = sunk[i];
    int64_t budget = 100'000'000; // range operations
    for (GreedyOrder order : {GreedyOrder::SizeStart, GreedyOrder::Area, GreedyOrder::Length})
      if (partsHeight() > incumbent.goal() && !incumbent.stop())
        adopt(placeInOrder(grounded, greedyOrder(grounded, order), GreedyFit::First,
                           {.budget = &budget, .stop = &incumbent.stop}));
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
    adopt(incumbent.bases);
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
    std::vector<Bytes> bases = incumbent.bases;
    Bytes top = 0;
    for (size_t i = 0; i < bases.size(); ++i) {
      if (static_cast<int32_t>(i) == chosen)
        continue;
      bases[i] -= bases[i] > incumbent.bases[chosen] ? down : 0;
      top = std::max(top, bases[i] + model.items[i].size);
    }
    bases[chosen] = alignUp(top, item.alignment);
    if (bases[chosen] + item.size >= incumbent.height)
      return;
    incumbent.height = bases[chosen] + item.size;
    incumbent.bases = std::move(bases);
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
    if (height >= incumbent.height)
      return;
    incumbent.bases = sunk;
    for (const Part &part : parts)
      for (size_t k = 0; k < part.bases.size(); ++k)
        incumbent.bases[part.leaf.items[k]] = part.bases[k];
    incumbent.height = height;
  }

  /// True when `part` may be searched, and then its instance is there.
  bool prepare(Part &part) {
    if (part.leaf.items.size() > veryManyItems ||
        workPerPair * part.pairs > incumbent.workLimit - incumbent.work)
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
    // A longer run goes on where the first one ended, or elsewhere by what has failed since. Where
    // targets fall step by step it would repeat the first one; some noise makes it a new one.
    if (effort != firstEffort && isDescending(part)) {
      search.noise = 0.3;
      search.seed = static_cast<uint64_t>(effort);
    }
    search.nodeLimit = part.instance->freeItems() + effort;
    // One setting that gets lost leaves something for the next ones.
    search.workLimit = (incumbent.workLimit - incumbent.work) / 3 * 2;
    if (isLarge(part))
      search.workLimit =
          std::min(search.workLimit, workPerLostPair * part.pairs * (effort / firstEffort));
    search.failures = &part.failures;
    SearchResult found = part.instance->search(target, search, incumbent.stop);
    incumbent.work += found.work + 1;
    if (found.outcome == SearchOutcome::Exhausted) {
      part.exhaustedAt = std::max(part.exhaustedAt, target);
      if (part.instance->isComplete() && target % grain == 0)
        part.failedAt = std::max(part.failedAt, target);
    } else if (found.outcome == SearchOutcome::Found) {
      part.bases = std::move(found.bases);
      part.height = 0;
      for (size_t k = 0; k < part.bases.size(); ++k)
        part.height = std::max(part.height, part.bases[k] + model.items[part.leaf.items[k]].size);
      incumbent.method = "search " + describe(search);
    }
    return found.outcome;
  }

  /// What the setting at `position` may take of a round of `effort`. Deciding, those in front solve
  /// most: the others join in later rounds, with few nodes at first. Minimizing, targets fall to
  /// whoever finds a way: all are asked from the start.
  int64_t shareOf(const Part &part, size_t position, int64_t effort) const {
    constexpr size_t front = 10, middle = 20;
    if (!incumbent.capacity && !isDescending(part))
      return effort;
    return position < front ? effort : position < middle ? effort / 2 : effort / 4;
  }

  /// Tries to bring `part` to at most `target` with the settings of the portfolio in turn.
  bool improve(Part &part, Bytes target, int64_t effort) {
    if (part.height <= target)
      return true;
    if (target <= part.exhaustedAt || !prepare(part))
      return false;
    for (size_t i = 0; i < part.settings.size() && !incumbent.isExhausted(); ++i) {
      const int32_t setting = part.settings[i];
      const int64_t share = shareOf(part, i, effort);
      if (share < firstEffort)
        continue;
      const SearchOutcome outcome = attempt(part, setting, target, share);
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
          incumbent.lowerBound = std::max(incumbent.lowerBound, alignUp(target + 1, unit));
        return false;
      }
    keepIfLower();
    return true;
  }

  void search() {
    for (int64_t effort = firstEffort; !incumbent.isExhausted() && incumbent.isOpen();
         effort *= 2) {
      const int64_t before = incumbent.work;
      incumbent.capacity ? decideOnce(effort) : minimizeOnce(effort);
      if (incumbent.work == before)
        return; // nothing is left to try
    }
  }

  void decideOnce(int64_t effort) {
    const Bytes target = *incumbent.capacity / grain * grain;
    if (target >= incumbent.lowerBound)
      improveAll(target, effort);
  }

  /// Where a portfolio's worth of searches takes long, targets fall step by step instead of by
  /// bisection: a target that no setting reaches costs all of them.
  bool isDescending(const Part &part) const {
    return !incumbent.capacity && part.leaf.items.size() > static_cast<size_t>(itemsToDescend);
  }

  /// Each setting in turn tries to lower the tallest part: half way to the bound, else by a little.
  void descendOnce(int64_t effort) {
    const Bytes step = std::max(unit, grain), floor = alignUp(incumbent.lowerBound, grain);
    for (size_t i = 0;
         i < searchPortfolio().size() && incumbent.isOpen() && !incumbent.isExhausted(); ++i) {
      Part &part =
          *std::max_element(parts.begin(), parts.end(), [](const Part &left, const Part &right) {
            return left.height < right.height;
          });
      if (!prepare(part))
        return;
      for (const int64_t share : {50, 95})
        for (bool isFound = true;
             isFound && part.height > floor + step && !incumbent.isExhausted();) {
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
    Bytes target = alignUp(incumbent.lowerBound, grain);
    if (std::any_of(parts.begin(), parts.end(),
                    [&](const Part &part) { return isDescending(part); })) {
      improveAll(target, effort);
      descendOnce(effort);
      return;
    }
    Bytes failed = target - step;
    while (target < incumbent.height && !incumbent.isExhausted()) {
      if (!improveAll(target, effort))
        failed = target;
      failed = std::max(failed, alignUp(incumbent.lowerBound, grain) - step);
      target = failed + std::max(step, (incumbent.height - failed) / 2 / step * step);
    }
  }

  static constexpr int32_t manyItemsOfPart = 4000;
  static constexpr int32_t itemsToDescend = 500;
  static constexpr int64_t workPerPair = 5; ///< of a straight descent, about

  Incumbent &incumbent;
  const Model &model;
  Bytes unit = 0;  ///< every height is a multiple of this
  Bytes grain = 1; ///< of the present split, see Reduction::grain
  std::vector<Bytes> sunk;
  std::vector<Part> parts;
};

} // namespace

void searchParts(Incumbent &incumbent) { PartSearch(incumbent).run(); }

} // namespace stow::pack
