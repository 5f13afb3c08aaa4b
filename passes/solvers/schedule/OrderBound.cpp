#include "passes/solvers/schedule/OrderBound.h"

#include "passes/solvers/schedule/Precedence.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <queue>
#include <tuple>

namespace stow::schedule {
namespace {

class OrderTree {
public:
  OrderTree(const Core &core, const CutBound &bound, Bytes budget, std::vector<int32_t> start,
            int64_t allowance)
      : core(core), bound(bound), budget(budget), allowance(allowance), root(core),
        watched(std::move(start)) {}

  int64_t solve() {
    std::vector<std::pair<Proof, int32_t>> ranked;
    for (int32_t op : watched)
      ranked.push_back({evaluate(root, op), -op});
    std::sort(ranked.rbegin(), ranked.rend());
    const int64_t all = allowance;
    int64_t best = 0;
    // Trees around different ops are different bounds: the largest holds.
    const size_t trees = std::min<size_t>(ranked.size(), 3);
    for (size_t t = 0; t < trees; ++t) {
      allowance = all / static_cast<int64_t>(trees);
      best = std::max(best, grow({ranked[t].first, -ranked[t].second, {}}));
    }
    return best;
  }

private:
  /// What cuts at one op prove, and where that is nothing yet, how near it is to something: the
  /// bytes in memory at the op's first run if nothing above it is run again.
  struct Proof {
    int64_t value = 0;
    Bytes bytes = 0;
    auto operator<=>(const Proof &) const = default;
  };
  struct Leaf {
    Proof proof;
    int32_t op = 0; ///< whose neighbours are decided next
    std::vector<std::pair<int32_t, int32_t>> pairs;
  };

  /// The bound of the tree that starts from `first`.
  int64_t grow(Leaf first) {
    auto later = [](const Leaf &a, const Leaf &b) {
      return std::tie(a.proof, a.pairs) > std::tie(b.proof, b.pairs);
    };
    std::priority_queue<Leaf, std::vector<Leaf>, decltype(later)> open(later);
    open.push(std::move(first));
    while (allowance > 0) {
      const Leaf leaf = open.top();
      open.pop();
      Precedence order = root;
      for (auto [u, v] : leaf.pairs)
        order.add(u, v);
      const std::optional<std::pair<int32_t, int32_t>> split = pairToDecide(order, leaf.op);
      if (!split)
        return leaf.proof.value; // nothing left to decide here
      for (bool swapped : {true, false}) {
        Leaf child = leaf;
        child.pairs.push_back(swapped ? std::pair(split->second, split->first) : *split);
        Precedence decided = order;
        decided.add(child.pairs.back().first, child.pairs.back().second);
        child.op = split->first;
        for (int32_t op : {split->first, split->second})
          child.proof = std::max(child.proof, evaluate(decided, op));
        open.push(std::move(child));
      }
    }
    return open.top().proof.value;
  }

  /// The op and one beside it, or where all are decided, another op of high pressure.
  std::optional<std::pair<int32_t, int32_t>> pairToDecide(const Precedence &order,
                                                          int32_t op) const {
    if (std::optional<int32_t> other = partner(order, op))
      return std::pair(op, *other);
    constexpr size_t enough = 200;
    const std::vector<int32_t> &ops = bound.opsByPressure();
    for (size_t i = 0; i < std::min(ops.size(), enough); ++i)
      if (std::optional<int32_t> other = partner(order, ops[i]))
        return std::pair(ops[i], *other);
    return std::nullopt;
  }

  /// The best certificate of a few cuts at `op`: from the price that did best before, then Newton's
  /// steps as in CutBound.
  Proof evaluate(const Precedence &order, int32_t op) {
    const Bytes room = budget - bound.footprint(op);
    if (room < 0)
      return {};
    KeepOrRerun cut(core, bound.momentOf(op, order.aboveOf(op), order.belowOf(op)));
    int64_t best = 0;
    double leftCost = 0, leftBytes = 0, rightCost = 0, rightBytes = 0;
    auto at = [&](double price) {
      KeepOrRerun::Answer answer = cut.solve(price);
      best = std::max(best, answer.value - priceUp(price, room));
      return std::pair(static_cast<double>(answer.rerunCost),
                       static_cast<double>(answer.keptBytes));
    };
    // Next to nothing for a byte: what must be kept if nothing above is run again.
    std::tie(leftCost, leftBytes) = at(1e-9);
    const Bytes bytes = bound.footprint(op) + static_cast<Bytes>(leftBytes);
    if (leftBytes > static_cast<double>(room)) {
      std::tie(rightCost, rightBytes) = at(static_cast<double>(cut.ceiling()));
      constexpr int steps = 10;
      for (int i = 0; i < steps && rightBytes <= static_cast<double>(room); ++i) {
        const double price = (rightCost - leftCost) / (leftBytes - rightBytes);
        if (!(price > 0) || !std::isfinite(price))
          break;
        auto [cost, kept] = at(price);
        if (cost + price * kept >= (leftCost + price * leftBytes) * (1 - 1e-12) ||
            kept == leftBytes || kept == rightBytes)
          break;
        if (kept > static_cast<double>(room))
          std::tie(leftCost, leftBytes) = std::pair(cost, kept);
        else
          std::tie(rightCost, rightBytes) = std::pair(cost, kept);
      }
    }
    allowance -= cut.work();
    return {best, bytes};
  }

  /// Bytes that must cross the first run of v: written above it, read below it.
  Bytes crossing(const std::vector<char> &above, const std::vector<char> &below, int32_t v) const {
    Bytes sum = 0;
    for (const CoreValue &value : core.values) {
      if (value.sizeBytes == 0 ||
          (value.producer && (!above[*value.producer] || *value.producer == v)))
        continue;
      bool read = value.keep;
      for (int32_t reader : value.readers)
        read |= below[reader] && reader != v;
      if (read)
        sum += value.sizeBytes;
    }
    return sum + bound.footprint(v);
  }

  /// The op beside v for which the worse of the two orders has the most bytes crossing.
  std::optional<int32_t> partner(const Precedence &order, int32_t v) const {
    const std::vector<char> above = order.aboveOf(v), below = order.belowOf(v);
    std::optional<int32_t> best;
    std::pair<Bytes, Bytes> bestScore{};
    int tried = 0;
    for (int32_t u : bound.opsByPressure()) {
      if (order.precedes(u, v) || order.precedes(v, u))
        continue;
      constexpr int enough = 40;
      if (++tried > enough)
        break;
      std::vector<char> aboveBoth = order.aboveOf(u), belowBoth = order.belowOf(u);
      const std::vector<char> belowOther = belowBoth, aboveOther = aboveBoth;
      for (size_t w = 0; w < above.size(); ++w) {
        aboveBoth[w] |= above[w];
        belowBoth[w] |= below[w];
      }
      const Bytes otherFirst =
          std::max(crossing(aboveBoth, below, v), crossing(aboveOther, belowBoth, u));
      const Bytes otherLast =
          std::max(crossing(above, belowBoth, v), crossing(aboveBoth, belowOther, u));
      const std::pair score{std::min(otherFirst, otherLast), std::max(otherFirst, otherLast)};
      if (!best || score > bestScore) {
        best = u;
        bestScore = score;
      }
    }
    return best;
  }

  const Core &core;
  const CutBound &bound;
  const Bytes budget;
  int64_t allowance;
  const Precedence root;
  const std::vector<int32_t> watched;
};

} // namespace

Cost orderedTimeBound(const Core &core, const CutBound &bound, Bytes budgetBytes,
                      std::vector<int32_t> start, int64_t allowance) {
  constexpr size_t mostOps = 4000;
  if (core.ops.empty() || core.ops.size() > mostOps || start.empty())
    return core.leastTime;
  return bound.timeOfScaled(
      OrderTree(core, bound, budgetBytes, std::move(start), allowance).solve());
}

} // namespace stow::schedule
