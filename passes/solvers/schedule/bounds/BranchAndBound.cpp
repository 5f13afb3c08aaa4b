#include "passes/solvers/schedule/bounds/BranchAndBound.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

namespace stow::schedule {
namespace {

enum class Decision : int8_t { Open, Never, Again };

class Tree {
public:
  Tree(const Graph &graph, const CutBound &bound, Bytes budget, int32_t v, int64_t target,
       int64_t allowance)
      : graph(graph), root(bound.firstRunOf(v)), room(budget - graph.footprint(v)), target(target),
        allowance(allowance) {
    root.isUncapped = true;
    for (const GraphValue &value : graph.values)
      largest = std::max(largest, value.sizeBytes);
  }

  int64_t solve() {
    if (room < 0)
      return 0;
    Leaf first;
    first.decisions.assign(graph.ops.size(), Decision::Open);
    evaluate(first);
    std::vector<Leaf> leaves; // a heap, the least value first
    leaves.push_back(std::move(first));
    while (leaves.front().value < target && leaves.front().branch && allowance > 0) {
      std::pop_heap(leaves.begin(), leaves.end(), isLater);
      const Leaf leaf = std::move(leaves.back());
      leaves.pop_back();
      for (Decision decision : {Decision::Never, Decision::Again}) {
        Leaf child = leaf;
        child.decisions[*leaf.branch] = decision;
        evaluate(child);
        leaves.push_back(std::move(child));
        std::push_heap(leaves.begin(), leaves.end(), isLater);
      }
    }
    return leaves.front().value;
  }

private:
  struct Leaf {
    int64_t value = 0; ///< scaled cost
    std::vector<Decision> decisions;
    double price = 0; ///< of its best cut; 0: none solved yet
    std::optional<int32_t> branch;
    size_t number = 0; ///< of evaluations before it
  };
  static bool isLater(const Leaf &a, const Leaf &b) {
    return std::tie(a.value, a.number) > std::tie(b.value, b.number);
  }

  /// What is decided to run again needs its inputs, and keeps none of its outputs. Adds its cost.
  SaveOrRerun::Boundary decided(const Leaf &leaf, Cost &certain) const {
    SaveOrRerun::Boundary boundary = root;
    std::vector<char> isNeeded(graph.values.size(), 0);
    for (int32_t value : boundary.needed)
      isNeeded[value] = 1;
    for (size_t t = 0; t < graph.ops.size(); ++t) {
      if (leaf.decisions[t] == Decision::Never)
        boundary.fixed[t] = 1;
      if (leaf.decisions[t] != Decision::Again)
        continue;
      certain += std::exchange(boundary.rerunCost[t], 0);
      for (int32_t value : graph.ops[t].outputs)
        boundary.free[value] = 1;
      for (int32_t value : graph.ops[t].inputs)
        if (!std::exchange(isNeeded[value], 1))
          boundary.needed.push_back(value);
    }
    if (graph.hasViews)
      boundary.spreadFixed(graph);
    return boundary;
  }

  /// The leaf's best cut: two answers that bracket the best price, which lies where their lines
  /// meet (Newton), from the price of the leaf above on.
  void evaluate(Leaf &leaf) {
    Cost certain = 0;
    SaveOrRerun cut(graph, decided(leaf, certain));
    leaf.number = ++evaluations;
    leaf.branch.reset();
    std::optional<SaveOrRerun::Answer> over, within;
    auto solve = [&](double price) {
      SaveOrRerun::Answer answer = cut.solve(price);
      const int64_t value = certain + answer.value - priceUp(price, room);
      if (value > leaf.value) {
        leaf.value = value;
        leaf.price = price;
      }
      return answer;
    };
    auto take = [&](SaveOrRerun::Answer answer) {
      (answer.keptBytes > room ? over : within) = std::move(answer);
    };
    const double most = static_cast<double>(cut.ceiling()) / static_cast<double>(largest);
    constexpr double stretch = 8, least = 1e-6; // of the price above
    const double start = leaf.price;
    take(solve(start));
    for (double price = start; !within && price < most && leaf.value < target; take(solve(price)))
      price = start > 0 ? std::min(price * stretch, most) : most;
    for (double price = start; !over && price > 0; take(solve(price)))
      price = price > start * least ? price / stretch : 0;
    constexpr int rounds = 24;
    for (int i = 0; i < rounds && over && within; ++i) {
      const double price = static_cast<double>(within->rerunCost - over->rerunCost) /
                           static_cast<double>(over->keptBytes - within->keptBytes);
      auto height = [&](const SaveOrRerun::Answer &answer) {
        return static_cast<double>(answer.rerunCost) +
               price * static_cast<double>(answer.keptBytes);
      };
      if (!(price > 0))
        break;
      SaveOrRerun::Answer answer = solve(price);
      if (height(answer) >= height(*over) * (1 - 1e-12))
        break;
      take(std::move(answer));
    }
    allowance -= cut.work();
    if (over && within)
      leaf.branch = difference(over->reruns, within->reruns);
  }

  /// Of the ops in one list only, the one that writes most.
  std::optional<int32_t> difference(const std::vector<int32_t> &a,
                                    const std::vector<int32_t> &b) const {
    std::vector<int32_t> only;
    std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only));
    std::optional<int32_t> best;
    Bytes most = -1;
    for (int32_t op : only) {
      Bytes bytes = 0;
      for (int32_t value : graph.ops[op].outputs)
        bytes += graph.values[value].sizeBytes;
      if (bytes > most) {
        most = bytes;
        best = op;
      }
    }
    return best;
  }

  const Graph &graph;
  SaveOrRerun::Boundary root;
  const Bytes room;
  const int64_t target;
  int64_t allowance;
  Bytes largest = 1; ///< value
  size_t evaluations = 0;
};

} // namespace

Cost branchedTimeBound(const Graph &graph, const CutBound &bound, Bytes budgetBytes,
                       const BranchOptions &options) {
  // Times are multiples of a step: a bound just above the last one before the known time will do.
  const int64_t target =
      options.knownTime
          ? ((*options.knownTime - graph.leastTime - graph.costStep) << bound.shift()) + 1
          : std::numeric_limits<int64_t>::max();
  int64_t best = 0;
  for (int32_t op : options.ops)
    if (best < target)
      best = std::max(best, Tree(graph, bound, budgetBytes, op, target, options.allowance).solve());
  return bound.timeOfScaled(best);
}

} // namespace stow::schedule
