#include "passes/solvers/pack/Layers.h"
#include "passes/solvers/pack/Chains.h"
#include "passes/solvers/pack/Greedy.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace stow::pack {

namespace {

/// Items of a first layer have at least so many bytes, as shares of the goal; those of the next one
/// a third of that. All that is smaller than the last share is one layer.
constexpr int64_t firstShares[] = {1'000, 300, 100, 3'000};
constexpr int64_t nextShare = 3, lastShare = 5'000;

constexpr Bytes unlimited = std::numeric_limits<Bytes>::max();

/// Steps for a layer at first: enough to put in half of the items.
int64_t leastEffort(const Model &model) {
  constexpr int64_t least = 10'000'000;
  int64_t pass = 0; // over all chains
  for (const Item &item : model.items)
    pass += 4 + (item.end - item.begin) / 4;
  return std::max(least, pass * static_cast<int64_t>(model.items.size()) / 2);
}

class Layers {
public:
  explicit Layers(Incumbent &incumbent) : incumbent(incumbent), model(incumbent.model) {}

  void run() {
    // A first packing soon; then fewer tries that go deep.
    constexpr int64_t deeper = 6;
    const int64_t least = leastEffort(model);
    packMost(firstShares[0], least);
    addTheRest(least);
    for (int64_t effort = deeper * least; !isFinished(); effort *= 2) {
      for (const int64_t share : firstShares) {
        if (!isFinished() && isShort())
          addTheRest(effort);
        if (isFinished())
          return;
        packMost(share, effort);
        if (most.excess <= 0)
          addTheRest(effort);
      }
      addTheRest(effort);
      polish(effort);
    }
  }

private:
  bool isFinished() const { return !incumbent.isOpen() || incumbent.isExhausted(); }
  int64_t workLeft() const { return incumbent.workLimit - incumbent.work; }
  /// True when the last layer should be added while there is work for it.
  bool isShort() const { return workLeft() < 4 * leastEffort(model); }

  /// A packing of the items that are not of the last layer.
  struct Most {
    std::vector<int32_t> order; ///< from the bottom up; empty: none is known
    Bytes smallest = 0;         ///< items of at least so many bytes
    Bytes excess = unlimited;   ///< above their load
  };

  /// Packs all layers but the last one, with `effort` steps for each. It is given up where it is no
  /// lower than what is known.
  void packMost(int64_t share, int64_t effort) {
    const Bytes goal = incumbent.goal();
    const Bytes known = std::min(most.excess, incumbent.height - goal);
    Most found{.order = {}, .smallest = goal / share};
    found.order = packFirst(found.smallest, effort, found.excess);
    while (found.excess < known && share * nextShare <= lastShare && !isFinished()) {
      share *= nextShare;
      const Bytes above = std::exchange(found.smallest, goal / share);
      const Bytes load = roundedLoad(restrictTo(model, itemsOf(found.smallest, unlimited)));
      ChainPacking packing =
          packByChains(model, std::move(found.order), itemsOf(found.smallest, above),
                       optionsFor(load, effort), incumbent.work);
      found.order = std::move(packing.order);
      found.excess = packing.height - load;
    }
    if (found.excess < known && share * nextShare > lastShare)
      most = std::move(found);
  }

  /// Adds the last layer to the best packing of the others.
  void addTheRest(int64_t effort) {
    if (most.order.empty() || isFinished())
      return;
    const ChainPacking packing =
        packByChains(model, std::move(most.order), itemsOf(0, most.smallest),
                     optionsFor(incumbent.goal(), effort), incumbent.work);
    take(packing.order, packing.bases);
    most = {};
  }

  /// Items of at least `smallest` and less than `above` bytes.
  std::vector<int32_t> itemsOf(Bytes smallest, Bytes above) const {
    std::vector<int32_t> items;
    for (int32_t i = 0; i < static_cast<int32_t>(model.items.size()); ++i)
      if (model.items[i].size >= smallest && model.items[i].size < above)
        items.push_back(i);
    return items;
  }

  /// The load of some of the items, with padding.
  Bytes roundedLoad(Model part) const {
    for (ModelPiece &piece : part.pieces)
      piece.high = alignUp(piece.high, model.items.front().alignment);
    return modelLoad(part);
  }

  /// Items of at least `smallest` bytes packed alone, from the bottom up.
  std::vector<int32_t> packFirst(Bytes smallest, int64_t effort, Bytes &excess) {
    const std::vector<int32_t> items = itemsOf(smallest, unlimited);
    const Model part = restrictTo(model, items);
    const Bytes load = roundedLoad(part);
    GreedyResult greedy = bestOfGreedy(part, load);
    Incumbent alone{.model = part,
                    .capacity = std::nullopt,
                    .stop = incumbent.stop,
                    .bases = std::move(greedy.bases),
                    .height = greedy.height,
                    .method = {},
                    .lowerBound = load,
                    .workLimit = std::min(effort, workLeft() / 2)};
    if (alone.isOpen())
      searchParts(alone);
    incumbent.work += alone.work;
    excess = alone.height - load;
    std::vector<int32_t> sequence = fromTheBottom(alone.bases);
    for (int32_t &entry : sequence)
      entry = items[entry];
    if (!alone.isOpen() || isFinished())
      return sequence;
    ChainPacking packing =
        packByChains(model, std::move(sequence), {}, optionsFor(load, effort), incumbent.work);
    excess = packing.height - load;
    return std::move(packing.order);
  }

  static std::vector<int32_t> fromTheBottom(const std::vector<Bytes> &bases) {
    std::vector<int32_t> order(bases.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return std::pair(bases[a], a) < std::pair(bases[b], b);
    });
    return order;
  }

  /// Lowers the packing that is known by its chains.
  void polish(int64_t effort) {
    if (isFinished())
      return;
    const ChainPacking packing = packByChains(model, fromTheBottom(incumbent.bases), {},
                                              optionsFor(incumbent.goal(), effort), incumbent.work);
    take(packing.order, packing.bases);
  }

  ChainOptions optionsFor(Bytes goal, int64_t effort) {
    return {.goal = goal,
            .seed = ++searches,
            .workLimit = std::min(effort, workLeft() / 2),
            .stop = incumbent.stop};
  }

  void take(const std::vector<int32_t> &order, const std::vector<Bytes> &bases) {
    std::vector<Bytes> byItem(model.items.size());
    for (size_t k = 0; k < order.size(); ++k)
      byItem[order[k]] = bases[k];
    const Bytes height = heightOfBases(model, byItem);
    if (height >= incumbent.height)
      return;
    incumbent.bases = std::move(byItem);
    incumbent.height = height;
    incumbent.method = "layers";
  }

  Incumbent &incumbent;
  const Model &model;
  Most most; ///< lowest, not yet with the rest
  uint64_t searches = 0;
};

} // namespace

bool canPackInLayers(const Incumbent &incumbent) {
  return isChainable(incumbent.model) &&
         leastEffort(incumbent.model) <= (incumbent.workLimit - incumbent.work) / 4;
}

void packInLayers(Incumbent &incumbent) { Layers(incumbent).run(); }

} // namespace stow::pack
