#include "passes/solvers/pack/Layers.h"
#include "passes/solvers/pack/Chains.h"
#include "passes/solvers/pack/Greedy.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stow::pack {

namespace {

/// Items of a first layer have at least so many bytes, as shares of the goal; those of the next one
/// a third of that. All that is smaller than the last share is one layer.
constexpr int64_t firstShares[] = {1'000, 300, 100, 3'000};
constexpr int64_t nextShare = 3, lastShare = 5'000;

constexpr Bytes unlimited = std::numeric_limits<Bytes>::max();

/// Steps for a layer at first: enough to put in all items twice.
int64_t leastEffort(const Model &model) {
  constexpr int64_t least = 30'000'000;
  int64_t pass = 0; // over all chains
  for (const Item &item : model.items)
    pass += 4 + (item.end - item.begin) / 4;
  return std::max(least, 2 * pass * static_cast<int64_t>(model.items.size()));
}

class Layers {
public:
  explicit Layers(Incumbent &incumbent) : incumbent(incumbent), model(incumbent.model) {}

  void run() {
    for (int64_t effort = leastEffort(model); !isFinished(); effort *= 2) {
      for (const int64_t share : firstShares)
        if (!isFinished())
          attempt(share, effort);
      if (!isFinished())
        polish(effort);
    }
  }

private:
  bool isFinished() const { return !incumbent.isOpen() || incumbent.isExhausted(); }

  /// One packing, with `effort` steps for each layer. It is given up where it is no lower than what
  /// is known.
  void attempt(int64_t share, int64_t effort) {
    const Bytes goal = incumbent.goal();
    Bytes smallest = goal / share;
    std::vector<int32_t> order = packFirst(smallest, effort);
    for (bool isLast = false; !isLast && !isFinished();) {
      const Bytes above = smallest;
      isLast = share * nextShare > lastShare;
      share *= nextShare;
      smallest = isLast ? 0 : goal / share;
      std::vector<int32_t> added = itemsOf(smallest, above);
      const Bytes load = isLast ? goal : roundedLoad(smallest);
      ChainPacking packing = packByChains(model, std::move(order), std::move(added),
                                          optionsFor(load, effort), incumbent.work);
      if (packing.height - load >= incumbent.height - goal)
        return;
      order = std::move(packing.order);
      if (isLast)
        take(order, packing.bases);
    }
  }

  /// Items of at least `smallest` and less than `above` bytes.
  std::vector<int32_t> itemsOf(Bytes smallest, Bytes above) const {
    std::vector<int32_t> items;
    for (int32_t i = 0; i < static_cast<int32_t>(model.items.size()); ++i)
      if (model.items[i].size >= smallest && model.items[i].size < above)
        items.push_back(i);
    return items;
  }

  /// The load of the items of at least `smallest` bytes, with padding.
  Bytes roundedLoad(Bytes smallest) const {
    Model rounded = restrictTo(model, itemsOf(smallest, unlimited));
    for (ModelPiece &piece : rounded.pieces)
      piece.high = alignUp(piece.high, model.items.front().alignment);
    return modelLoad(rounded);
  }

  /// Items of at least `smallest` bytes packed alone, from the bottom up.
  std::vector<int32_t> packFirst(Bytes smallest, int64_t effort) {
    const std::vector<int32_t> items = itemsOf(smallest, unlimited);
    const Model part = restrictTo(model, items);
    const Bytes load = roundedLoad(smallest);
    GreedyResult greedy = bestOfGreedy(part, load);
    Incumbent alone{.model = part,
                    .capacity = std::nullopt,
                    .stop = incumbent.stop,
                    .bases = std::move(greedy.bases),
                    .height = greedy.height,
                    .method = {},
                    .lowerBound = load,
                    .workLimit = effort};
    if (alone.isOpen())
      searchParts(alone);
    incumbent.work += alone.work;
    std::vector<int32_t> sequence(items.size());
    std::iota(sequence.begin(), sequence.end(), 0);
    std::sort(sequence.begin(), sequence.end(), [&](int32_t a, int32_t b) {
      return std::pair(alone.bases[a], a) < std::pair(alone.bases[b], b);
    });
    for (int32_t &entry : sequence)
      entry = items[entry];
    if (!alone.isOpen())
      return sequence;
    return packByChains(model, std::move(sequence), {}, optionsFor(load, effort), incumbent.work)
        .order;
  }

  /// Lowers the packing that is known by its chains.
  void polish(int64_t effort) {
    std::vector<int32_t> order(model.items.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return std::pair(incumbent.bases[a], a) < std::pair(incumbent.bases[b], b);
    });
    const ChainPacking packing = packByChains(model, std::move(order), {},
                                              optionsFor(incumbent.goal(), effort), incumbent.work);
    take(packing.order, packing.bases);
  }

  ChainOptions optionsFor(Bytes goal, int64_t effort) {
    return {.goal = goal,
            .seed = ++searches,
            .workLimit = std::min(effort, incumbent.workLimit - incumbent.work),
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
  uint64_t searches = 0;
};

} // namespace

bool canPackInLayers(const Incumbent &incumbent) {
  return isChainable(incumbent.model) &&
         leastEffort(incumbent.model) <= (incumbent.workLimit - incumbent.work) / 4;
}

void packInLayers(Incumbent &incumbent) { Layers(incumbent).run(); }

} // namespace stow::pack
