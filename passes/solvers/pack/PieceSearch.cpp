#include "passes/solvers/pack/PieceSearch.h"
#include "passes/solvers/pack/CanonicalSearch.h"
#include "passes/solvers/pack/Greedy.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace stow::pack {

namespace {

/// The base of `second` less that of `first` is at most `below` or at least `above`.
struct Separation {
  int32_t first, second;
  Bytes below, above;
};

/// `value`, of either sign, rounded up to a multiple of `step`.
Bytes roundUp(Bytes value, Bytes step) {
  const Bytes rest = value % step;
  return rest > 0 ? value + step - rest : value - rest;
}

/// What two items must keep, in ascending order.
std::vector<Separation> separate(const Model &model, int32_t first, int32_t second) {
  const Item &a = model.items[first], &b = model.items[second];
  const Bytes step = std::gcd(a.alignment, b.alignment);
  std::vector<Separation> all;
  for (int32_t p = a.firstPiece; p < a.lastPiece; ++p)
    for (int32_t q = b.firstPiece; q < b.lastPiece; ++q) {
      const ModelPiece &mine = model.pieces[p], &its = model.pieces[q];
      if (mine.begin < its.end && its.begin < mine.end)
        all.push_back({first, second, -roundUp(its.high - mine.low, step),
                       roundUp(mine.high - its.low, step)});
    }
  std::sort(all.begin(), all.end(), [](const Separation &left, const Separation &right) {
    return std::pair(left.below, left.above) < std::pair(right.below, right.above);
  });
  std::vector<Separation> joined;
  for (const Separation &next : all)
    if (!joined.empty() && next.below < joined.back().above)
      joined.back().above = std::max(joined.back().above, next.above);
    else
      joined.push_back(next);
  return joined;
}

/// The decision whether some items, tied by separations, fit into a capacity.
class PieceSearch {
public:
  PieceSearch(Incumbent &incumbent, std::vector<int32_t> items, std::vector<Separation> separations)
      : incumbent(incumbent), model(incumbent.model), items(std::move(items)),
        separations(std::move(separations)), nodes(static_cast<int32_t>(this->items.size()) + 1),
        apart(static_cast<size_t>(nodes) * nodes), grid(apart.size()), sections(model.sections) {
    std::vector<int32_t> nodeOf(model.items.size());
    for (int32_t node = 1; node < nodes; ++node)
      nodeOf[this->items[node - 1]] = node;
    for (Separation &separation : this->separations) {
      separation.first = nodeOf[separation.first];
      separation.second = nodeOf[separation.second];
    }
    for (int32_t a = 0; a < nodes; ++a)
      for (int32_t b = 0; b < nodes; ++b)
        grid[a * nodes + b] = a + b == 0 ? 1 : std::gcd(alignmentOf(a), alignmentOf(b));
    for (int32_t node = 1; node < nodes; ++node)
      for (int32_t p = itemOf(node).firstPiece; p < itemOf(node).lastPiece; ++p)
        for (int32_t s = model.pieces[p].begin; s < model.pieces[p].end; ++s)
          sections[s].push_back({node, model.pieces[p].low, model.pieces[p].high});
  }

  /// Puts the bases of its items into `bases` when it finds some.
  SearchOutcome run(Bytes capacity, std::vector<Bytes> &bases) {
    trail.clear();
    for (int32_t a = 0; a < nodes; ++a)
      for (int32_t b = 0; b < nodes; ++b)
        at(a, b) = a == b ? 0 : lowestOf(b) - highestOf(a, capacity);
    for (int32_t node = 1; node < nodes; ++node)
      if (highestOf(node, capacity) < lowestOf(node))
        return SearchOutcome::Exhausted;
    const SearchOutcome outcome = descend(orderTwins() && propagate());
    for (int32_t node = 1; outcome == SearchOutcome::Found && node < nodes; ++node)
      bases[items[node - 1]] = at(0, node);
    return outcome;
  }

private:
  /// A piece of a node in some section.
  struct Member {
    int32_t node;
    Bytes low, high;
  };

  struct Branch {
    const Separation *on;
    bool isBelow, isSecond;
    size_t mark; ///< of the trail
  };

  // Node 0 is the ground, whose base is 0.
  const Item &itemOf(int32_t node) const { return model.items[items[node - 1]]; }
  Bytes alignmentOf(int32_t node) const { return node == 0 ? 0 : itemOf(node).alignment; }
  Bytes lowestOf(int32_t node) const { return node == 0 ? 0 : itemOf(node).fixedBase.value_or(0); }
  Bytes highestOf(int32_t node, Bytes capacity) const {
    if (node == 0)
      return 0;
    const Item &item = itemOf(node);
    const Bytes highest = -roundUp(item.size - capacity, item.alignment);
    return item.fixedBase ? std::min(highest, *item.fixedBase) : highest;
  }

  /// How far the base of `b` is at least above that of `a`.
  Bytes &at(int32_t a, int32_t b) { return apart[a * nodes + b]; }

  /// Of items that are alike, the first lies lower.
  bool orderTwins() {
    auto isTwin = [&](const Item &a, const Item &b) {
      return !a.fixedBase && !b.fixedBase && a.alignment == b.alignment &&
             std::equal(model.pieces.begin() + a.firstPiece, model.pieces.begin() + a.lastPiece,
                        model.pieces.begin() + b.firstPiece, model.pieces.begin() + b.lastPiece,
                        [](const ModelPiece &left, const ModelPiece &right) {
                          return std::tie(left.begin, left.end, left.low, left.high) ==
                                 std::tie(right.begin, right.end, right.low, right.high);
                        });
    };
    for (int32_t a = 1; a < nodes; ++a)
      for (int32_t b = a + 1; b < nodes; ++b)
        if (isTwin(itemOf(a), itemOf(b)) && !require(a, b, 0))
          return false;
    return true;
  }

  /// Puts the base of `to` at least `least` above that of `from`, with all that follows; false when
  /// it cannot be, or the work is used up: alignments without a common factor may take long.
  bool require(int32_t from, int32_t to, Bytes least) {
    std::vector<std::tuple<int32_t, int32_t, Bytes>> pending{{from, to, least}};
    while (!pending.empty()) {
      auto [i, j, above] = pending.back();
      pending.pop_back();
      above = roundUp(above, grid[i * nodes + j]);
      if (above <= at(i, j))
        continue;
      if (above > -at(j, i) || incumbent.work >= incumbent.workLimit)
        return false;
      incumbent.work += nodes;
      for (int32_t a = 0; a < nodes; ++a) {
        const Bytes throughI = at(a, i) + above;
        if (throughI <= at(a, j))
          continue;
        incumbent.work += nodes;
        for (int32_t b = 0; b < nodes; ++b) {
          const Bytes sum = throughI + at(j, b);
          if (sum <= at(a, b))
            continue;
          trail.push_back({a * nodes + b, at(a, b)});
          at(a, b) = sum;
          if (sum % grid[a * nodes + b] != 0)
            pending.push_back({a, b, sum});
        }
      }
    }
    return true;
  }

  bool isOpen(const Separation &s) {
    return at(s.first, s.second) < s.above && -at(s.second, s.first) > s.below;
  }
  Bytes roomBelow(const Separation &s) { return s.below - at(s.first, s.second); }
  Bytes roomAbove(const Separation &s) { return -at(s.second, s.first) - s.above; }
  bool putBelow(const Separation &s) { return require(s.second, s.first, -s.below); }
  bool putAbove(const Separation &s) { return require(s.first, s.second, s.above); }

  /// Decides what has one side left; false when something has none.
  bool propagate() {
    for (bool isChanging = true; isChanging;) {
      isChanging = false;
      incumbent.work += static_cast<int64_t>(separations.size());
      for (const Separation &s : separations) {
        if (!isOpen(s) || (roomBelow(s) >= 0 && roomAbove(s) >= 0))
          continue;
        if (!(roomBelow(s) >= 0 ? putBelow(s) : putAbove(s)))
          return false;
        isChanging = true;
      }
    }
    return std::none_of(sections.begin(), sections.end(),
                        [&](std::vector<Member> &members) { return isOverloaded(members); });
  }

  /// True when pieces have more bytes than there are from the lowest begin to the highest end.
  bool isOverloaded(std::vector<Member> &members) {
    auto begin = [&](const Member &member) { return at(0, member.node) + member.low; };
    auto end = [&](const Member &member) { return member.high - at(member.node, 0); };
    std::sort(members.begin(), members.end(), [&](const Member &left, const Member &right) {
      return std::tuple(end(left), left.node, left.low) <
             std::tuple(end(right), right.node, right.low);
    });
    incumbent.work += static_cast<int64_t>(members.size() * members.size());
    for (const Member &lowest : members) {
      Bytes free = -begin(lowest);
      for (const Member &member : members)
        if (begin(member) >= begin(lowest)) {
          free -= member.high - member.low;
          if (free + end(member) < 0)
            return true;
        }
    }
    return false;
  }

  /// What the lowest bases break, with the least room on one of its sides; null for nothing.
  const Separation *pick() {
    const Separation *best = nullptr;
    std::pair<Bytes, Bytes> bestKey;
    incumbent.work += static_cast<int64_t>(separations.size());
    for (const Separation &s : separations) {
      const Bytes distance = at(0, s.second) - at(0, s.first);
      if (distance <= s.below || distance >= s.above)
        continue;
      const std::pair<Bytes, Bytes> key = std::minmax(roomBelow(s), roomAbove(s));
      if (!best || key < bestKey) {
        best = &s;
        bestKey = key;
      }
    }
    return best;
  }

  /// Depth first, from a root that is `isAlive`.
  SearchOutcome descend(bool isAlive) {
    std::vector<Branch> path;
    while (!incumbent.isExhausted()) {
      if (isAlive) {
        const Separation *next = pick();
        if (!next)
          return SearchOutcome::Found;
        path.push_back({next, roomBelow(*next) > roomAbove(*next), false, trail.size()});
      } else {
        while (!path.empty() && path.back().isSecond)
          path.pop_back();
        if (path.empty())
          return SearchOutcome::Exhausted;
        path.back().isBelow = !path.back().isBelow;
        path.back().isSecond = true;
        for (; trail.size() > path.back().mark; trail.pop_back())
          apart[trail.back().first] = trail.back().second;
      }
      const Branch &branch = path.back();
      isAlive = (branch.isBelow ? putBelow(*branch.on) : putAbove(*branch.on)) && propagate();
    }
    return SearchOutcome::Stopped;
  }

  Incumbent &incumbent;
  const Model &model;
  std::vector<int32_t> items;
  std::vector<Separation> separations; ///< of nodes
  const int32_t nodes;
  std::vector<Bytes> apart; ///< by pair of nodes, see `at`
  std::vector<Bytes> grid;  ///< by pair of nodes: all distances are multiples of this
  std::vector<std::vector<Member>> sections;
  std::vector<std::pair<int32_t, Bytes>> trail; ///< entries of `apart` and what they were
};

/// One search for each set of items that separations tie together.
std::vector<PieceSearch> searchesOf(Incumbent &incumbent) {
  const Model &model = incumbent.model;
  const auto count = static_cast<int32_t>(model.items.size());
  std::vector<int32_t> group(count);
  std::iota(group.begin(), group.end(), 0);
  std::vector<Separation> separations;
  for (int32_t a = 0; a < count; ++a)
    for (int32_t b = a + 1; b < count; ++b)
      if (const std::vector<Separation> between = separate(model, a, b); !between.empty()) {
        separations.insert(separations.end(), between.begin(), between.end());
        std::replace(group.begin(), group.end(), group[b], group[a]);
      }
  std::vector<PieceSearch> searches;
  for (int32_t root = 0; root < count; ++root) {
    std::vector<int32_t> members;
    std::vector<Separation> within;
    for (int32_t item = 0; item < count; ++item)
      if (group[item] == root)
        members.push_back(item);
    std::copy_if(separations.begin(), separations.end(), std::back_inserter(within),
                 [&](const Separation &s) { return group[s.first] == root; });
    if (!members.empty())
      searches.emplace_back(incumbent, std::move(members), std::move(within));
  }
  return searches;
}

} // namespace

bool isForPieces(const Model &model) {
  constexpr size_t mostItems = 64, mostPieces = 512;
  return model.items.size() <= mostItems && model.pieces.size() <= mostPieces &&
         !std::all_of(model.items.begin(), model.items.end(),
                      [](const Item &item) { return item.isRectangle(); });
}

void searchPieces(Incumbent &incumbent) {
  std::vector<PieceSearch> searches = searchesOf(incumbent);
  std::vector<Bytes> bases(incumbent.model.items.size());
  while (incumbent.isOpen()) {
    const Bytes bound = incumbent.lowerBound;
    const Bytes target = incumbent.capacity.value_or(bound + (incumbent.height - 1 - bound) / 2);
    SearchOutcome outcome = SearchOutcome::Found;
    for (size_t i = 0; i < searches.size() && outcome == SearchOutcome::Found; ++i)
      outcome = searches[i].run(target, bases);
    if (outcome == SearchOutcome::Stopped)
      return;
    if (outcome == SearchOutcome::Exhausted) {
      incumbent.lowerBound = target + 1;
      continue;
    }
    incumbent.bases = bases;
    incumbent.height = heightOfBases(incumbent.model, bases);
    incumbent.method = "search by pieces";
  }
}

} // namespace stow::pack
