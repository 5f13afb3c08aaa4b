#include "passes/solvers/schedule/MomentBound.h"

#include "passes/solvers/schedule/MomentTree.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace stow::schedule {
namespace {

class MomentBound {
public:
  MomentBound(const Core &core, const CutBound &bound, Bytes budget,
              const MomentBoundOptions &options)
      : core(core), bound(bound), budget(budget), options(options), precedence(core),
        allowance(options.allowance) {
    // Times are multiples of a step: a bound just above the last one before the known time will do.
    target = options.knownTime
                 ? ((*options.knownTime - core.leastTime - core.costStep) << bound.shift()) + 1
                 : std::numeric_limits<int64_t>::max();
    for (const CoreOp &op : core.ops)
      costs.push_back(op.leastCost << bound.shift());
    for (size_t t = 0; t < core.ops.size(); ++t) {
      Bytes own = bound.footprint(static_cast<int32_t>(t)) - core.baseBytes;
      for (int32_t value : core.ops[t].inputs)
        own -= core.values[value].sizeBytes;
      ownBytes.push_back(std::max<Bytes>(own, 0));
    }
    for (const Sequence &order : options.orders)
      measure(core, order, &bytesAt.emplace_back());
  }

  int64_t solve() {
    std::vector<Entry> entries = proveLevels();
    for (int32_t op : ops()) {
      entries.push_back(entryOf(firstRunOf(op), positionOf(op)));
      entries.back().excess = entries.back().tree->weighAll(1, allowance);
    }
    return addUp(entries);
  }

private:
  /// A level: so much of these weights. Where it is in the order of ops, from 0 to 1, and what is
  /// in memory there in the best of the known orders.
  struct Level {
    size_t weighting = 0; ///< index
    int64_t level = 0;
    double position = 0;
    Bytes bytes = 0;
  };
  struct Entry {
    std::unique_ptr<MomentTree> tree;
    double position = 0;
    bool isLevel = false;
    double excess = 0;
    int64_t value = 0;
  };

  static constexpr double apart = 0.1; ///< positions of moments that are not near to each other

  double positionOf(int32_t op) const {
    return static_cast<double>(op) / static_cast<double>(core.ops.size());
  }

  Entry entryOf(MomentQuestion question, double position) const {
    const bool isLevel = !question.weights.empty();
    return {std::make_unique<MomentTree>(core, precedence, std::move(question), costs), position,
            isLevel};
  }

  /// The levels that no set of ops reaches within the room, unless it runs ops again: the level
  /// that seems nearest to it is worked on, until a real set that fits refutes it or there is none.
  std::vector<Entry> proveLevels() {
    const int64_t slice = allowance / 100, margin = allowance / 25;
    int64_t work = allowance / 2;
    allowance -= work;
    const std::vector<Level> candidates = levels();
    std::vector<Entry> trees;
    size_t next = 0;
    auto fill = [&] {
      constexpr size_t most = 24;
      for (; trees.size() < most && next < candidates.size() && work > 0; ++next) {
        trees.push_back(entryOf(atLevel(candidates[next]), candidates[next].position));
        trees.back().excess = trees.back().tree->weighAll(1, work);
        if (trees.back().tree->leastBytes() <= 0)
          trees.pop_back();
      }
    };
    fill();
    std::vector<Entry> proven;
    constexpr size_t enough = 2;
    while (work > 0 && proven.size() < enough && !trees.empty()) {
      auto best = std::max_element(trees.begin(), trees.end(), [](const Entry &a, const Entry &b) {
        return std::tie(a.excess, b.position) < std::tie(b.excess, a.position);
      });
      const int64_t before = work;
      if (best->excess <= 0)
        best->excess = best->tree->weighAll(slice, work);
      if (best->excess > 0) { // the more, the dearer are the reruns that make room
        best->excess = best->tree->weighAll(margin, work);
        const double position = best->position;
        proven.push_back(std::move(*best));
        std::erase_if(trees, [&](const Entry &entry) {
          return !entry.tree || std::abs(entry.position - position) < apart;
        });
      } else if (best->tree->leastBytes() <= 0 || work == before) {
        trees.erase(best);
        if (proven.empty())
          fill();
      }
    }
    allowance += std::max<int64_t>(work, 0);
    return proven;
  }

  /// The bound of the best moment, and of the others what they prove with what it leaves of the
  /// costs.
  int64_t addUp(std::vector<Entry> &entries) {
    const int64_t perOp = allowance / 30;
    const Entry *highest = nullptr;
    for (const Entry &entry : entries)
      if (entry.isLevel && (!highest || entry.excess > highest->excess))
        highest = &entry;
    for (Entry &entry : entries) {
      if (entry.excess <= 0 || (entry.isLevel && &entry != highest))
        continue;
      int64_t share = entry.isLevel ? allowance / 2 : perOp;
      allowance -= share;
      entry.value = entry.tree->grow(target, share);
      allowance += std::max<int64_t>(share, 0);
    }
    std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
      return std::tie(a.value, a.excess, a.position) > std::tie(b.value, b.excess, b.position);
    });
    int64_t sum = 0;
    std::vector<Cost> left = costs;
    for (size_t i = 0; i < entries.size() && sum < target && allowance > 0; ++i) {
      MomentTree &tree = *entries[i].tree;
      const bool isFar = std::all_of(
          entries.begin(), entries.begin() + static_cast<ptrdiff_t>(i), [&](const Entry &other) {
            return std::abs(other.position - entries[i].position) >= apart;
          });
      if (!isFar || entries[i].excess <= 0)
        continue;
      if (i > 0)
        tree.setCosts(left);
      int64_t share = i ? allowance / 2 : allowance - allowance / 4;
      allowance -= share;
      const int64_t value = tree.grow(target - sum, share);
      allowance += std::max<int64_t>(share, 0);
      if (value <= 0)
        continue;
      sum += value;
      const std::vector<Cost> charged = tree.charges();
      for (size_t t = 0; t < left.size(); ++t)
        left[t] -= charged[t];
    }
    return sum;
  }

  /// The ops whose cuts prove most and those of the highest pressure, then others that are not near
  /// to one in the list.
  std::vector<int32_t> ops() const {
    constexpr size_t best = 2, highest = 4, most = 7;
    const std::vector<int32_t> &byPressure = bound.opsByPressure();
    std::vector<int32_t> candidates(
        options.ops.begin(),
        options.ops.begin() + static_cast<std::ptrdiff_t>(std::min(options.ops.size(), best)));
    candidates.insert(candidates.end(), byPressure.begin(),
                      byPressure.begin() +
                          static_cast<std::ptrdiff_t>(std::min(byPressure.size(), highest)));
    const size_t near = candidates.size();
    candidates.insert(candidates.end(), options.ops.begin(), options.ops.end());
    std::vector<int32_t> chosen;
    for (size_t i = 0; i < candidates.size() && chosen.size() < most; ++i) {
      const int32_t op = candidates[i];
      const bool isFar = std::all_of(chosen.begin(), chosen.end(), [&](int32_t other) {
        return std::abs(positionOf(other) - positionOf(op)) >= apart;
      });
      const bool isNew = std::find(chosen.begin(), chosen.end(), op) == chosen.end();
      if (isNew && (i < near || isFar) && bound.footprint(op) <= budget)
        chosen.push_back(op);
    }
    return chosen;
  }

  MomentQuestion firstRunOf(int32_t v) const {
    MomentQuestion question;
    question.fates.assign(core.ops.size(), Fate::Open);
    const auto op = static_cast<size_t>(v);
    for (size_t t = 0; t < core.ops.size(); ++t)
      if (Precedence::has(precedence.below(op), t))
        question.fates[t] = Fate::Later;
      else if (Precedence::has(precedence.above(op), t))
        question.fates[t] = Fate::Before;
    question.isFree.assign(core.values.size(), 0);
    for (int32_t value : core.ops[op].inputs)
      question.isFree[value] = 1;
    for (int32_t value : core.ops[op].outputs)
      question.isFree[value] = 1;
    question.room = budget - bound.footprint(v);
    return question;
  }

  MomentQuestion atLevel(const Level &level) const {
    MomentQuestion question;
    question.fates.assign(core.ops.size(), Fate::Open);
    question.isFree.assign(core.values.size(), 0);
    // The op that runs at the moment writes the bytes in which the level falls: what is missing
    // below it is in memory. So a byte of weight may be worth as much as a byte, and no more.
    question.room = budget - core.baseBytes;
    question.weights = weightings[level.weighting];
    question.level = level.level;
    question.mostPullUp = 1;
    return question;
  }

  /// Levels at which all orders exceed the budget: of the bytes of all ops, some way apart; then of
  /// those of ops of two neighbouring depths, where sets have less choice; then the other levels.
  std::vector<Level> levels() {
    constexpr int64_t steps = 400, coarse = 16, windowSteps = 8;
    weightings.push_back(ownBytes);
    std::vector<int32_t> depths(core.ops.size(), 0);
    for (size_t t = 0; t < core.ops.size(); ++t)
      for (int32_t value : core.ops[t].inputs)
        if (const std::optional<int32_t> &producer = core.values[value].producer)
          depths[t] = std::max(depths[t], depths[*producer] + 1);
    const int32_t deepest = *std::max_element(depths.begin(), depths.end());
    constexpr int32_t mostDepths = 60; // deeper graphs are narrow
    for (int32_t depth = 0; depth < deepest && deepest < mostDepths; ++depth) {
      std::vector<int64_t> weights = ownBytes;
      for (size_t t = 0; t < core.ops.size(); ++t)
        if (depths[t] != depth && depths[t] != depth + 1)
          weights[t] = 0;
      weightings.push_back(std::move(weights));
    }
    const std::vector<Level> all = levelsOf(0, steps);
    std::vector<Level> list, windows;
    for (size_t w = 1; w < weightings.size(); ++w)
      for (const Level &level : levelsOf(w, windowSteps))
        windows.push_back(level);
    sortByBytes(windows);
    std::vector<Level> rest;
    for (const Level &level : all) {
      const bool isFar = std::all_of(list.begin(), list.end(), [&](const Level &other) {
        return std::abs(static_cast<double>(other.level - level.level)) * steps >=
               static_cast<double>(coarse * totalOf(ownBytes));
      });
      (isFar ? list : rest).push_back(level);
    }
    list.insert(list.end(), windows.begin(), windows.end());
    list.insert(list.end(), rest.begin(), rest.end());
    return list;
  }

  static int64_t totalOf(const std::vector<int64_t> &weights) {
    return std::accumulate(weights.begin(), weights.end(), int64_t(0));
  }

  static void sortByBytes(std::vector<Level> &levels) {
    std::sort(levels.begin(), levels.end(), [](const Level &a, const Level &b) {
      return std::tie(b.bytes, a.weighting, a.level) < std::tie(a.bytes, b.weighting, b.level);
    });
  }

  /// The middles of equal parts of the weights where all orders exceed the budget, by falling
  /// bytes.
  std::vector<Level> levelsOf(size_t weighting, int64_t steps) const {
    const std::vector<int64_t> &weights = weightings[weighting];
    const int64_t total = totalOf(weights);
    std::vector<Level> list;
    for (int64_t s = 0; s < steps; ++s) {
      Level level{weighting, 0, 0, std::numeric_limits<Bytes>::max()};
      level.level =
          static_cast<int64_t>(static_cast<__int128>(total) * (2 * s + 1) / (2 * steps)) + 1;
      if (level.level <= total)
        list.push_back(level);
    }
    for (size_t o = 0; o < options.orders.size(); ++o) {
      const Sequence &order = options.orders[o];
      int64_t weight = 0;
      size_t reached = 0;
      for (size_t i = 0; i < order.size(); ++i) {
        weight += weights[order[i]];
        for (; reached < list.size() && list[reached].level <= weight; ++reached) {
          list[reached].bytes = std::min(list[reached].bytes, bytesAt[o][i]);
          list[reached].position = static_cast<double>(i) / static_cast<double>(order.size());
        }
      }
    }
    if (options.orders.empty())
      list.clear();
    std::erase_if(list, [&](const Level &level) { return level.bytes <= budget; });
    sortByBytes(list);
    return list;
  }

  const Core &core;
  const CutBound &bound;
  const Bytes budget;
  const MomentBoundOptions &options;
  const Precedence precedence;
  std::vector<Cost> costs;
  std::vector<int64_t> ownBytes;                ///< that a run of each op adds to its inputs
  std::vector<std::vector<int64_t>> weightings; ///< of levels
  std::vector<std::vector<Bytes>> bytesAt;      ///< per order, at every position
  int64_t target = 0, allowance = 0;
};

} // namespace

Cost momentTimeBound(const Core &core, const CutBound &bound, Bytes budgetBytes,
                     const MomentBoundOptions &options) {
  constexpr size_t mostOps = 4000;
  if (core.ops.empty() || core.ops.size() > mostOps)
    return core.leastTime;
  return bound.timeOfScaled(MomentBound(core, bound, budgetBytes, options).solve());
}

} // namespace stow::schedule
