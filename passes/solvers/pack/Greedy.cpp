#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/LargeScale.h"
#include "passes/solvers/pack/OccupancyTree.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

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
    // Visits every gap; `room` is how far the item could still be lifted within it. No gap is
    // smaller than one without room.
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
      if (room == unlimited || bestRoom == 0)
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

std::vector<int32_t> crowdedFirst(const Model &model) {
  const std::vector<Bytes> crowd = largestLoads(model);
  std::vector<int32_t> sequence(model.items.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  auto key = [&](int32_t i) {
    const Item &item = model.items[i];
    return std::tuple(-crowd[i], -item.size, -(item.birth + item.lifetime), i);
  };
  std::sort(sequence.begin(), sequence.end(),
            [&](int32_t a, int32_t b) { return key(a) < key(b); });
  return sequence;
}

std::vector<Bytes> placeInOrder(const Model &model, const std::vector<int32_t> &sequence,
                                GreedyFit fit, const PlaceLimits &limits) {
  constexpr int64_t pollInterval = 1'000'000;
  Placer placer(model);
  std::vector<Bytes> bases(model.items.size(), 0);
  for (size_t i = 0; i < model.items.size(); ++i) {
    const std::optional<Bytes> &fixed = model.items[i].fixedBase;
    if (!fixed)
      continue;
    if (*fixed + model.items[i].size >= limits.below ||
        !placer.isFree(static_cast<int32_t>(i), *fixed))
      return {};
    bases[i] = *fixed;
    placer.put(static_cast<int32_t>(i), *fixed);
  }
  int64_t nextPoll = pollInterval;
  bool isGivenUp = false;
  for (int32_t index : sequence) {
    if (model.items[index].fixedBase)
      continue;
    bases[index] = placer.find(index, fit);
    isGivenUp = bases[index] + model.items[index].size >= limits.below;
    if (!isGivenUp && placer.work >= nextPoll) {
      nextPoll = placer.work + pollInterval;
      isGivenUp = (limits.budget && placer.work > *limits.budget) ||
                  (limits.stop && *limits.stop && (*limits.stop)());
    }
    if (isGivenUp)
      break;
    placer.put(index, bases[index]);
  }
  if (limits.budget)
    *limits.budget -= placer.work;
  if (isGivenUp)
    return {};
  return bases;
}

Bytes heightOfBases(const Model &model, const std::vector<Bytes> &bases) {
  Bytes height = 0;
  for (size_t i = 0; i < bases.size(); ++i)
    height = std::max(height, bases[i] + model.items[i].size);
  return height;
}

namespace {

class GreedyContest {
public:
  GreedyContest(const Model &model, GreedyResult known) : model(model), best(std::move(known)) {}

  GreedyResult run(Bytes target, std::optional<int64_t> budget, const std::function<bool()> *stop) {
    const bool isFirst = best.bases.empty();
    if (isFirst || (best.height > target && !budget)) {
      PlaceLimits limits;
      if (!isFirst)
        limits.below = best.height;
      enter(placeInOrder(model, crowdedFirst(model), GreedyFit::First, limits),
            "greedy crowded/first");
    }
    if (best.bases.empty())
      return std::move(best); // fixed offsets collide whatever the order
    const int64_t largestShare =
        budget.value_or(0) / (model.items.size() > veryManyItems ? 1 : 3); // of one pair
    std::vector<int32_t> sequences[std::size(greedyOrders)];
    for (GreedyFit fit : {GreedyFit::First, GreedyFit::Best})
      for (GreedyOrder order : greedyOrders) {
        if (best.height <= target)
          return std::move(best);
        if (budget && (*budget < largestShare / 4 || (stop && *stop && (*stop)())))
          return std::move(best);
        std::vector<int32_t> &sequence = sequences[static_cast<size_t>(order)];
        if (sequence.empty())
          sequence = greedyOrder(model, order);
        int64_t share = std::min(budget.value_or(0), largestShare);
        const int64_t before = share;
        PlaceLimits limits{.below = best.height};
        if (budget) {
          limits.budget = &share;
          limits.stop = stop;
        }
        enter(placeInOrder(model, sequence, fit, limits),
              std::string("greedy ") + name(order) + "/" + name(fit));
        const bool ranOut = budget && (share < 0 || (stop && *stop && (*stop)()));
        if (budget)
          *budget -= before - share;
        if (!ranOut)
          best.done |= 1u << (2 * static_cast<uint32_t>(order) + static_cast<uint32_t>(fit));
      }
    return std::move(best);
  }

private:
  void enter(std::vector<Bytes> bases, const std::string &method) {
    if (bases.empty())
      return;
    best.height = heightOfBases(model, bases);
    best.bases = std::move(bases);
    best.method = method;
  }

  const Model &model;
  GreedyResult best;
};

} // namespace

GreedyResult bestOfGreedy(const Model &model, Bytes target, GreedyResult known,
                          std::optional<int64_t> budget, const std::function<bool()> *stop) {
  return GreedyContest(model, std::move(known)).run(target, budget, stop);
}

std::optional<Solution> packGreedy(const Problem &problem, GreedyOrder order, GreedyFit fit) {
  const Model model = makeModel(problem);
  std::vector<Bytes> bases = placeInOrder(model, greedyOrder(model, order), fit);
  if (bases.empty() && !model.items.empty())
    return std::nullopt;
  return model.solution(bases);
}

std::optional<Solution> packBestOfGreedy(const Problem &problem) {
  std::optional<Solution> best;
  for (GreedyOrder order : greedyOrders)
    for (GreedyFit fit : greedyFits)
      if (std::optional<Solution> solution = packGreedy(problem, order, fit))
        if (!best || solution->height < best->height)
          best = std::move(solution);
  return best;
}

} // namespace stow::pack
