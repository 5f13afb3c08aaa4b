#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/OccupancyTree.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stow::pack {

namespace {

constexpr Bytes unlimited = std::numeric_limits<Bytes>::max() / 4;

/// The taken bytes of one list as one piece of the item to place sees them.
struct Cursor {
  const ByteRange *next, *end;
  Bytes low, high; ///< of the piece, above the item's base
};

/// Finds bases for items one after the other.
class Placer {
public:
  explicit Placer(const Model &model) : model(model), tree(model.sections) {}

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
      }
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
                                GreedyFit fit) {
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
  for (int32_t index : sequence) {
    if (model.items[index].fixedBase)
      continue;
    bases[index] = placer.find(index, fit);
    placer.put(index, bases[index]);
  }
  return bases;
}

Bytes heightOfBases(const Model &model, const std::vector<Bytes> &bases) {
  Bytes height = 0;
  for (size_t i = 0; i < bases.size(); ++i)
    height = std::max(height, bases[i] + model.items[i].size);
  return height;
}

std::vector<Bytes> bestOfGreedy(const Model &model, Bytes target,
                                const std::function<bool()> &stop) {
  std::vector<Bytes> best;
  Bytes bestHeight = 0;
  for (GreedyOrder order : greedyOrders) {
    const std::vector<int32_t> sequence = greedyOrder(model, order);
    for (GreedyFit fit : greedyFits) {
      if (!best.empty() && (bestHeight <= target || stop()))
        return best;
      std::vector<Bytes> bases = placeInOrder(model, sequence, fit);
      if (bases.empty())
        return bases; // fixed offsets collide whatever the order
      const Bytes height = heightOfBases(model, bases);
      if (best.empty() || height < bestHeight) {
        best = std::move(bases);
        bestHeight = height;
      }
    }
  }
  return best;
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
  std::vector<Bytes> bases = bestOfGreedy(model, 0, [] { return false; });
  if (bases.empty() && !model.items.empty())
    return std::nullopt;
  return model.solution(bases);
}

} // namespace stow::pack
