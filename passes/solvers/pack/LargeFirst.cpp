#include "passes/solvers/pack/LargeFirst.h"
#include "ir/plan/Random.h"
#include "passes/solvers/pack/Greedy.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace stow::pack {

namespace {

/// Items of at least this share of the goal are large. With a 400th the translation model's smallest
/// plan stays 7 MiB above its live bytes, with a 50th the one in 16 bits.
constexpr int64_t largeShare = 200; // 1 / 200

/// Elementary steps that a range operation of a placement takes as long as, and what it takes beside
/// them for each item.
constexpr int64_t workPerRange = 5, workPerItem = 50;

class LargeFirst {
public:
  explicit LargeFirst(Incumbent &incumbent) : incumbent(incumbent), model(incumbent.model) {
    const Bytes smallest = incumbent.goal() / largeShare;
    for (int32_t item : greedyOrder(model, GreedyOrder::SizeLength))
      if (model.items[item].size >= smallest)
        order.push_back(item);
    largeCount = order.size();
    for (int32_t item : greedyOrder(model, GreedyOrder::Area))
      if (model.items[item].size < smallest)
        order.push_back(item);
  }

  void run() {
    if (largeCount < 2)
      return;
    const int64_t start = incumbent.work;
    const std::optional<Bytes> first = place(order, std::numeric_limits<Bytes>::max());
    if (!first)
      return;
    // The first threshold, as a share of the excess.
    constexpr double warm = 0.04;
    const auto excess = static_cast<double>(*first - incumbent.goal());
    for (Bytes height = *first; incumbent.isOpen() && !incumbent.isExhausted();) {
      const double left = 1 - static_cast<double>(incumbent.work - start) /
                                  static_cast<double>(incumbent.workLimit - start);
      const auto rise = static_cast<Bytes>(random.real() * left * warm * excess);
      std::vector<int32_t> next = changed();
      if (const std::optional<Bytes> found = place(next, height + rise)) {
        order = std::move(next);
        height = *found;
      }
    }
  }

private:
  /// The height of the packing in this order if it is at most `most`.
  std::optional<Bytes> place(const std::vector<int32_t> &sequence, Bytes most) {
    const int64_t budget = (incumbent.workLimit - incumbent.work) / workPerRange;
    int64_t left = budget;
    PlaceLimits limits = {.budget = &left, .stop = &incumbent.stop};
    if (most < limits.below)
      limits.below = most + 1;
    std::vector<Bytes> bases = placeInOrder(model, sequence, GreedyFit::First, limits);
    incumbent.work +=
        workPerRange * (budget - left) + workPerItem * static_cast<int64_t>(sequence.size());
    if (bases.empty())
      return std::nullopt;
    const Bytes height = heightOfBases(model, bases);
    if (height < incumbent.height) {
      incumbent.height = height;
      incumbent.bases = std::move(bases);
      incumbent.method = "large first";
    }
    return height;
  }

  std::vector<int32_t> changed() {
    constexpr int32_t mostMoved = 3;
    std::vector<int32_t> next = order;
    for (int32_t count = 1 + random.below(mostMoved); count > 0; --count) {
      const int32_t section = random.below(model.sections);
      here.clear();
      for (size_t at = 0; at < largeCount; ++at)
        if (const Item &item = model.items[next[at]]; item.begin <= section && section < item.end)
          here.push_back(static_cast<int32_t>(at));
      if (here.empty())
        continue;
      const auto from = next.begin() + here[random.below(here.size())];
      const auto to = next.begin() + here[random.below(here.size())];
      if (from < to)
        std::rotate(from, from + 1, to + 1);
      else
        std::rotate(to, from, from + 1);
    }
    return next;
  }

  Incumbent &incumbent;
  const Model &model;
  Random random{1};
  std::vector<int32_t> order; ///< of placing; the large items come first
  size_t largeCount = 0;
  std::vector<int32_t> here; ///< positions of the large items that live in one section
};

} // namespace

void packLargeFirst(Incumbent &incumbent) { LargeFirst(incumbent).run(); }

} // namespace stow::pack
