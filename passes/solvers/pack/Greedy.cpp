#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/LargeScale.h"
#include "passes/solvers/pack/OccupancyTree.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace stow::pack {

namespace {

constexpr Bytes unlimited = std::numeric_limits<Bytes>::max() / 4;

/// The taken bytes of one list as one piece of the item to place sees them.
struct Cursor {
  const ByteRange *next, *end;
  Bytes low, high; ///< of the piece, above the item's base
};

int32_t longestPiece(const Model &model) {
  int32_t longest = 1;
  for (const ModelPiece &piece : model.pieces)
    longest = std::max(longest, piece.end - piece.begin);
  return longest;
}

/// Finds bases for items one after the other.
class Placer {
public:
  explicit Placer(const Model &model) : model(model), tree(model.sections, longestPiece(model)) {}

  int64_t work = 0; ///< ranges looked at

  void put(int32_t index, Bytes base) {
    const Item &item = model.items[index];
    for (int32_t p = item.firstPiece; p < item.lastPiece; ++p) {
      const ModelPiece &piece = model.pieces[p];
      tree.insert(piece.begin, piece.end, base + piece.low, base + piece.high);
    }
  }

  /// True when `item` can lie at `base`.
  bool isFree(int32_t index, Bytes base) {
    aim(index);
    return lift(base, 1) == base;
  }

  Bytes find(int32_t index, GreedyFit fit) {
    aim(index);
    const Bytes alignment = model.items[index].alignment;
    Bytes base = lift(0, alignment);
    if (fit == GreedyFit::First)
      return base;
    // Visits every gap; `room` is how far the item could still be lifted within it.
    Bytes best = base, bestRoom = unlimited;
    for (;;) {
      Bytes room = unlimited;
      work += static_cast<int64_t>(cursors.size());
      for (const Cursor &cursor : cursors)
        if (cursor.next != cursor.end)
          room = std::min(room, cursor.next->low - cursor.high - base);
      if (room < bestRoom) {
        best = base;
        bestRoom = room;
      }
      if (room == unlimited)
        return bestRoom == unlimited ? base : best;
      base = lift(alignUp(base + room + 1, alignment), alignment);
    }
  }

private:
  /// Points one cursor per piece and list of taken bytes at the first range.
  void aim(int32_t index) {
    cursors.clear();
    const Item &item = model.items[index];
    for (int32_t p = item.firstPiece; p < item.lastPiece; ++p) {
      const ModelPiece &piece = model.pieces[p];
      lists.clear();
      tree.collect(piece.begin, piece.end, lists);
      for (const RangeList *list : lists)
        cursors.push_back({list->data(), list->data() + list->size(), piece.low, piece.high});
    }
  }

  /// The lowest aligned base >= `base` at which nothing collides; moves the cursors past what lies
  /// below it.
  Bytes lift(Bytes base, Bytes alignment) {
    for (size_t settled = 0, i = 0; settled < cursors.size();
         i = i + 1 == cursors.size() ? 0 : i + 1) {
      Cursor &cursor = cursors[i];
      const Bytes before = base;
      while (cursor.next != cursor.end && cursor.next->low < base + cursor.high) {
        if (cursor.next->high > base + cursor.low)
          base = alignUp(cursor.next->high - cursor.low, alignment);
        ++cursor.next;
        ++work;
      }
      ++work;
      settled = base == before ? settled + 1 : 1;
    }
    return base;
  }

  const Model &model;
  OccupancyTree tree;
  std::vector<const RangeList *> lists;
  std::vector<Cursor> cursors;
};

} // namespace

const char *name(GreedyOrder order) {
  switch (order) {
  case GreedyOrder::SizeStart:
    return "size-start";
  case GreedyOrder::SizeLength:
    return "size-length";
  case GreedyOrder::Length:
    return "length";
  case GreedyOrder::Area:
    return "area";
  case GreedyOrder::Degree:
    return "degree";
  case GreedyOrder::Birth:
    return "birth";
  }
  return "";
}

const char *name(GreedyFit fit) { return fit == GreedyFit::Best ? "best" : "first"; }

std::vector<int32_t> greedyOrder(const Model &model, GreedyOrder order) {
  const auto count = static_cast<int32_t>(model.items.size());
  // Larger keys go first; equal ones by index.
  std::vector<std::pair<double, double>> keys(count);
  std::vector<int64_t> degrees;
  if (order == GreedyOrder::Degree)
    degrees = overlapDegrees(model);
  for (int32_t i = 0; i < count; ++i) {
    const Item &item = model.items[i];
    const auto size = static_cast<double>(item.size);
    const auto length = static_cast<double>(item.lifetime);
    switch (order) {
    case GreedyOrder::SizeStart:
      keys[i] = {size, -static_cast<double>(item.birth)};
      break;
    case GreedyOrder::SizeLength:
      keys[i] = {size, length};
      break;
    case GreedyOrder::Length:
      keys[i] = {length, size};
      break;
    case GreedyOrder::Area:
      keys[i] = {size * length, size};
      break;
    case GreedyOrder::Degree:
      keys[i] = {static_cast<double>(degrees[i]), size};
      break;
    case GreedyOrder::Birth:
      keys[i] = {-static_cast<double>(item.birth), size};
      break;
    }
  }
  std::vector<int32_t> sequence(count);
  std::iota(sequence.begin(), sequence.end(), 0);
  std::sort(sequence.begin(), sequence.end(),
            [&](int32_t a, int32_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
  return sequence;
}

std::vector<Bytes> placeInOrder(const Model &model, const std::vector<int32_t> &sequence,
                                GreedyFit fit, int64_t *budget, const std::function<bool()> *stop) {
  constexpr int64_t pollInterval = 1'000'000;
  Placer placer(model);
  std::vector<Bytes> bases(model.items.size(), 0);
  for (size_t i = 0; i < model.items.size(); ++i) {
    const std::optional<Bytes> &fixed = model.items[i].fixedBase;
    if (!fixed)
      continue;
    if (!placer.isFree(static_cast<int32_t>(i), *fixed))
      return {};
    bases[i] = *fixed;
    placer.put(static_cast<int32_t>(i), *fixed);
  }
  int64_t nextPoll = pollInterval;
  for (int32_t index : sequence) {
    if (model.items[index].fixedBase)
      continue;
    bases[index] = placer.find(index, fit);
    placer.put(index, bases[index]);
    if (placer.work >= nextPoll) {
      nextPoll = placer.work + pollInterval;
      if ((budget && placer.work > *budget) || (stop && *stop && (*stop)())) {
        if (budget)
          *budget -= placer.work;
        return {};
      }
    }
  }
  if (budget)
    *budget -= placer.work;
  return bases;
}

std::vector<Bytes> packByBirth(const Model &model) {
  const std::vector<int32_t> births = greedyOrder(model, GreedyOrder::Birth);
  std::vector<int32_t> deaths(births);
  auto death = [&](int32_t i) { return model.items[i].birth + model.items[i].lifetime; };
  std::sort(deaths.begin(), deaths.end(),
            [&](int32_t a, int32_t b) { return std::pair(death(a), a) < std::pair(death(b), b); });
  std::vector<Bytes> bases(model.items.size(), 0);
  std::map<Bytes, Bytes> gaps;              // low -> high; the last one is open above
  std::set<std::pair<Bytes, Bytes>> bySize; // (bytes, low)
  auto addGap = [&](Bytes low, Bytes high) {
    gaps[low] = high;
    bySize.insert({high - low, low});
  };
  auto dropGap = [&](Bytes low, Bytes high) {
    gaps.erase(low);
    bySize.erase({high - low, low});
  };
  addGap(0, unlimited);
  size_t dead = 0;
  for (int32_t index : births) {
    const Item &item = model.items[index];
    for (; death(deaths[dead]) <= item.birth; ++dead) {
      Bytes low = bases[deaths[dead]], high = low + model.items[deaths[dead]].size;
      auto above = gaps.lower_bound(low);
      if (above != gaps.begin())
        if (auto below = std::prev(above); below->second == low) {
          low = below->first;
          dropGap(below->first, below->second);
        }
      if (above->first == high) { // the open gap is above everything
        const Bytes first = above->first;
        high = above->second;
        dropGap(first, high);
      }
      addGap(low, high);
    }
    // The smallest gap that is large enough, padding included.
    auto gap = bySize.lower_bound({item.size, 0});
    while (alignUp(gap->second, item.alignment) + item.size > gap->second + gap->first)
      ++gap;
    const Bytes low = gap->second, high = low + gap->first;
    const Bytes base = bases[index] = alignUp(low, item.alignment);
    dropGap(low, high);
    if (base > low)
      addGap(low, base);
    if (base + item.size < high)
      addGap(base + item.size, high);
  }
  return bases;
}

Bytes heightOfBases(const Model &model, const std::vector<Bytes> &bases) {
  Bytes height = 0;
  for (size_t i = 0; i < bases.size(); ++i)
    height = std::max(height, bases[i] + model.items[i].size);
  return height;
}

namespace {

/// The number of a pair in GreedyResult::done.
uint32_t bitOf(GreedyOrder order, GreedyFit fit) {
  return 1u << (2 * static_cast<uint32_t>(order) + static_cast<uint32_t>(fit));
}

class GreedyContest {
public:
  GreedyContest(const Model &model, Bytes target, const std::function<bool()> &stop,
                GreedyResult known = {})
      : model(model), target(target), stop(stop), best(std::move(known)) {}

  GreedyResult run() {
    for (GreedyOrder order : greedyOrders)
      for (GreedyFit fit : greedyFits) {
        if (isOver())
          return std::move(best);
        if (best.done & bitOf(order, fit))
          continue;
        const bool isFirst = best.bases.empty();
        enter(
            placeInOrder(model, greedyOrder(model, order), fit, nullptr, isFirst ? nullptr : &stop),
            order, fit);
        if (isFirst && best.bases.empty())
          return std::move(best); // fixed offsets collide whatever the order
      }
    return std::move(best);
  }

  /// The cheap and the promising first, each pair with at most half of the budget.
  GreedyResult runWithBudget() {
    if (isPlain(model))
      enter(packByBirth(model), GreedyOrder::Birth, GreedyFit::Best);
    best.done = 0; // ties between equal gaps fall otherwise there
    if (isOver())
      return std::move(best);
    // Range operations: 1e8 take one to four seconds. What is left of the budget when a pair is
    // done is not spent on one that could hardly finish.
    const bool isVeryLarge = model.items.size() > veryManyItems;
    int64_t budget = 200'000'000;
    const int64_t largestShare = isVeryLarge ? budget : budget / 3;
    for (GreedyFit fit : {GreedyFit::First, GreedyFit::Best})
      for (GreedyOrder order : {GreedyOrder::SizeStart, GreedyOrder::Length, GreedyOrder::Degree,
                                GreedyOrder::Area, GreedyOrder::SizeLength, GreedyOrder::Birth}) {
        if (isOver() || budget < largestShare / 4)
          return std::move(best);
        const bool isFirst = best.bases.empty();
        int64_t share =
            isFirst ? std::numeric_limits<int64_t>::max() : std::min(budget, largestShare);
        const int64_t before = share;
        enter(
            placeInOrder(model, greedyOrder(model, order), fit, &share, isFirst ? nullptr : &stop),
            order, fit);
        budget -= before - share;
        if (isFirst && best.bases.empty())
          return std::move(best);
      }
    return std::move(best);
  }

private:
  bool isOver() const { return !best.bases.empty() && (best.height <= target || (stop && stop())); }

  void enter(std::vector<Bytes> bases, GreedyOrder order, GreedyFit fit) {
    if (bases.empty())
      return;
    best.done |= bitOf(order, fit);
    const Bytes height = heightOfBases(model, bases);
    if (!best.bases.empty() && height >= best.height)
      return;
    best.bases = std::move(bases);
    best.height = height;
    best.method = std::string("greedy ") + name(order) + "/" + name(fit);
  }

  const Model &model;
  const Bytes target;
  const std::function<bool()> &stop;
  GreedyResult best;
};

} // namespace

GreedyResult bestOfGreedy(const Model &model, Bytes target, const std::function<bool()> &stop) {
  GreedyContest contest(model, target, stop);
  return model.items.size() > manyItems ? contest.runWithBudget() : contest.run();
}

void restOfGreedy(const Model &model, Bytes target, const std::function<bool()> &stop,
                  GreedyResult &result) {
  result = GreedyContest(model, target, stop, std::move(result)).run();
}

std::optional<Solution> packGreedy(const Problem &problem, GreedyOrder order, GreedyFit fit) {
  const Model model = makeModel(problem);
  std::vector<Bytes> bases = placeInOrder(model, greedyOrder(model, order), fit);
  if (bases.empty() && !model.items.empty())
    return std::nullopt;
  return model.solution(bases);
}

std::optional<Solution> packBestOfGreedy(const Problem &problem) {
  const Model model = makeModel(problem);
  GreedyResult result = GreedyContest(model, 0, {}).run();
  if (result.bases.empty() && !model.items.empty())
    return std::nullopt;
  return model.solution(result.bases);
}

} // namespace stow::pack
