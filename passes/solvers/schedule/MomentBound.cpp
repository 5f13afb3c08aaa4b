#include "passes/solvers/schedule/MomentBound.h"

#include "passes/solvers/schedule/MomentTree.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

namespace stow::schedule {
namespace {

class MomentBound {
public:
  MomentBound(const Core &core, const CutBound &bound, Bytes budget,
              const MomentBoundOptions &options)
      : core(core), bound(bound), budget(budget), options(options), relations(core),
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
      credit = std::max(credit, -own);
    }
  }

  int64_t solve() {
    std::vector<Entry> entries, levels;
    for (Question &asked : questions()) {
      std::vector<Entry> &list = asked.question.weights.empty() ? entries : levels;
      list.push_back(
          {std::make_unique<MomentTree>(core, relations, std::move(asked.question), costs),
           asked.position, &list == &levels});
    }
    levels = proveLevels(std::move(levels));
    for (Entry &entry : entries)
      entry.excess = entry.tree->weighAll(1, allowance);
    std::move(levels.begin(), levels.end(), std::back_inserter(entries));
    return addUp(entries);
  }

private:
  struct Question {
    MomentQuestion question;
    double position = 0; ///< in the order of ops, from 0 to 1
  };
  struct Entry {
    std::unique_ptr<MomentTree> tree;
    double position = 0;
    bool isLevel = false;
    double excess = 0;
    int64_t value = 0;
  };

  static constexpr int64_t steps = 400; ///< levels that are looked at
  static constexpr double apart = 0.1;  ///< positions of moments that are not near to each other

  double positionOf(int32_t op) const {
    return static_cast<double>(op) / static_cast<double>(core.ops.size());
  }

  /// The levels that no set of ops reaches within the room, unless it runs ops again: the level
  /// that seems nearest to it is worked on, until a real set that fits refutes it or there is none.
  std::vector<Entry> proveLevels(std::vector<Entry> levels) {
    const int64_t slice = allowance / 100, margin = allowance / 10;
    int64_t work = allowance / 2;
    allowance -= work;
    for (Entry &level : levels)
      level.excess = level.tree->weighAll(1, work);
    std::vector<Entry> proven;
    constexpr size_t enough = 2;
    while (work > 0 && proven.size() < enough && !levels.empty()) {
      auto best =
          std::max_element(levels.begin(), levels.end(), [](const Entry &a, const Entry &b) {
            return std::tie(a.excess, b.position) < std::tie(b.excess, a.position);
          });
      const int64_t before = work;
      if (best->excess <= 0)
        best->excess = best->tree->weighAll(slice, work);
      if (best->excess > 0) { // the more, the dearer are the reruns that make room
        best->excess = best->tree->weighAll(margin, work);
        const double position = best->position;
        proven.push_back(std::move(*best));
        std::erase_if(levels, [&](const Entry &level) {
          return !level.tree || std::abs(level.position - position) < apart;
        });
      } else if (best->tree->leastBytes() <= 0 || work == before) {
        levels.erase(best);
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

  std::vector<Question> questions() const {
    std::vector<Question> list;
    auto add = [&](int32_t op) {
      if (bound.footprint(op) <= budget)
        list.push_back({firstRunOf(op), positionOf(op)});
    };
    // The best and the highest, and then others that are not near to one in the list.
    constexpr size_t best = 2, most = 7;
    std::vector<int32_t> ops = options.ops;
    const size_t known = std::min(ops.size(), best);
    const std::vector<int32_t> &highest = bound.opsByPressure();
    ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(known), highest.begin(),
               highest.begin() + static_cast<std::ptrdiff_t>(std::min(highest.size(), 2 + best)));
    std::vector<int32_t> chosen;
    for (size_t i = 0; i < ops.size() && chosen.size() < most; ++i) {
      const bool isFar = std::all_of(chosen.begin(), chosen.end(), [&](int32_t other) {
        return std::abs(positionOf(other) - positionOf(ops[i])) >= apart;
      });
      const bool isNew = std::find(chosen.begin(), chosen.end(), ops[i]) == chosen.end();
      if (isNew && (i < known + 2 + best || isFar))
        chosen.push_back(ops[i]);
    }
    for (int32_t op : chosen)
      add(op);
    for (auto [level, position] : levels())
      list.push_back({atLevel(level), position});
    return list;
  }

  MomentQuestion firstRunOf(int32_t v) const {
    MomentQuestion question;
    question.fates.assign(core.ops.size(), Fate::Open);
    const auto op = static_cast<size_t>(v);
    for (size_t t = 0; t < core.ops.size(); ++t)
      if (Relations::has(relations.below(op), t))
        question.fates[t] = Fate::Later;
      else if (Relations::has(relations.above(op), t))
        question.fates[t] = Fate::Before;
    question.isFree.assign(core.values.size(), 0);
    for (int32_t value : core.ops[op].inputs)
      question.isFree[value] = 1;
    for (int32_t value : core.ops[op].outputs)
      question.isFree[value] = 1;
    question.room = budget - bound.footprint(v);
    return question;
  }

  MomentQuestion atLevel(int64_t level) const {
    MomentQuestion question;
    question.fates.assign(core.ops.size(), Fate::Open);
    question.isFree.assign(core.values.size(), 0);
    // The op that runs at the moment writes the bytes in which the level falls: what is missing
    // below it is in memory, unless an input made room for it.
    question.room = budget - core.baseBytes + credit;
    question.weights = ownBytes;
    question.level = level;
    question.mostPullUp = 1;
    return question;
  }

  /// Where all orders exceed the budget, the most first, and not too near to each other.
  std::vector<std::pair<int64_t, double>> levels() const {
    int64_t total = 0;
    for (Bytes own : ownBytes)
      total += own;
    if (total == 0 || options.orders.empty())
      return {};
    std::vector<Bytes> least(steps, std::numeric_limits<Bytes>::max());
    std::vector<double> position(steps, 0);
    for (const Sequence &order : options.orders) {
      std::vector<Bytes> bytesAt;
      measure(core, order, &bytesAt);
      std::vector<Bytes> here(steps, 0);
      int64_t weight = 0;
      for (size_t i = 0; i < order.size(); ++i) {
        const int64_t next = weight + ownBytes[order[i]];
        for (int64_t s = stepOf(weight, total); s < steps && levelOf(s, total) <= next; ++s)
          if (levelOf(s, total) > weight) {
            here[s] = bytesAt[i];
            position[s] = static_cast<double>(i) / static_cast<double>(order.size());
          }
        weight = next;
      }
      for (int64_t s = 0; s < steps; ++s)
        least[s] = std::min(least[s], here[s]);
    }
    std::vector<int64_t> order;
    for (int64_t s = 0; s < steps; ++s)
      if (least[s] > budget)
        order.push_back(s);
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return std::tie(least[a], b) > std::tie(least[b], a); });
    constexpr size_t most = 24;
    std::vector<int64_t> chosen;
    for (int64_t apart : {steps / 25, steps / 80, int64_t(1)})
      for (int64_t s : order) {
        const bool isNew = std::all_of(chosen.begin(), chosen.end(),
                                       [&](int64_t other) { return std::abs(s - other) >= apart; });
        if (isNew && chosen.size() < most)
          chosen.push_back(s);
      }
    std::vector<std::pair<int64_t, double>> result;
    for (int64_t s : chosen)
      result.push_back({levelOf(s, total), position[s]});
    return result;
  }
  static int64_t levelOf(int64_t step, int64_t total) {
    return static_cast<int64_t>(static_cast<__int128>(total) * (2 * step + 1) / (2 * steps)) + 1;
  }
  static int64_t stepOf(int64_t weight, int64_t total) {
    return std::max<int64_t>(
        0, static_cast<int64_t>(static_cast<__int128>(weight) * steps / total) - 1);
  }

  const Core &core;
  const CutBound &bound;
  const Bytes budget;
  const MomentBoundOptions &options;
  const Relations relations;
  std::vector<Cost> costs;
  std::vector<int64_t> ownBytes; ///< that a run of each op adds to its inputs
  Bytes credit = 0;              ///< most that a run takes off its inputs
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
