#include "passes/solvers/schedule/search/Chain.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stow::schedule {
namespace {

constexpr Cost impossible = std::numeric_limits<Cost>::max();

bool reads(const GraphOp &op, std::vector<int32_t> values) {
  std::vector<int32_t> inputs = op.inputs;
  std::sort(inputs.begin(), inputs.end());
  std::sort(values.begin(), values.end());
  return inputs == values;
}

} // namespace

std::optional<Chain> asChain(const Graph &graph) {
  const size_t count = graph.ops.size();
  if (count == 0 || count % 2 || graph.hasAlternatives || graph.baseBytes)
    return std::nullopt;
  const size_t length = count / 2;
  Chain chain;
  std::vector<int32_t> a, g(length + 1, -1);
  for (const GraphOp &op : graph.ops)
    if (op.outputs.size() != 1 || op.workspaceBytes || !op.credits.empty() || !op.recomputable)
      return std::nullopt;
  for (const GraphValue &value : graph.values)
    if (value.keep || !value.producer)
      return std::nullopt;
  for (size_t i = 0; i < length; ++i) {
    const GraphOp &op = graph.ops[i];
    if (!reads(op, i ? std::vector<int32_t>{a.back()} : std::vector<int32_t>{}))
      return std::nullopt;
    a.push_back(op.outputs[0]);
    chain.forward.push_back(static_cast<int32_t>(i));
    chain.forwardCost.push_back(op.cost);
    chain.sizes.push_back(graph.values[a.back()].sizeBytes);
  }
  g[length] = a.back();
  chain.backward.resize(length);
  chain.backwardCost.resize(length);
  chain.gradientSizes.resize(length);
  for (size_t i = length; i-- > 0;) {
    const int32_t index = static_cast<int32_t>(count - 1 - i);
    const GraphOp &op = graph.ops[index];
    std::vector<int32_t> expected = {g[i + 1]};
    if (i)
      expected.push_back(a[i - 1]);
    if (!reads(op, expected))
      return std::nullopt;
    g[i] = op.outputs[0];
    chain.backward[i] = index;
    chain.backwardCost[i] = op.cost;
    chain.gradientSizes[i] = graph.values[g[i]].sizeBytes;
  }
  return chain;
}

namespace {

/// The table of cheapest times. `top` segments end at b_{n-1} and compute a_{n-1} on their way; the
/// others find the gradient g_{j+1} in memory. Slots count everything inside the segment, its input
/// a_{i-1} and its gradient g_{j+1} included.
class Rotor {
public:
  Rotor(const Chain &chain, Bytes budget, int slotLimit) : chain(chain), n(chain.forward.size()) {
    Bytes unit = 0;
    for (Bytes size : chain.sizes)
      unit = std::gcd(unit, size);
    for (Bytes size : chain.gradientSizes)
      unit = std::gcd(unit, size);
    unit = std::max<Bytes>({unit, 1, (budget + slotLimit - 1) / slotLimit});
    slots = static_cast<int>(budget / unit);
    for (size_t i = 0; i < n; ++i) {
      a.push_back(static_cast<int>((chain.sizes[i] + unit - 1) / unit));
      g.push_back(static_cast<int>((chain.gradientSizes[i] + unit - 1) / unit));
    }
    const size_t states = n * (n + 1) * static_cast<size_t>(slots + 1);
    best.assign(states, unknown);
    choice.assign(states, 0);
  }

  std::optional<Sequence> schedule() {
    if (solve(0, n, slots) == impossible)
      return std::nullopt;
    Sequence result;
    emit(0, n, slots, result);
    return result;
  }

private:
  static constexpr Cost unknown = -1;

  // Segment b_i..b_{j-1}; j == n stands for the top segment, j == n + ... is never used: a segment
  // [i, n) whose gradient exists cannot occur, since only the turn makes a_{n-1}.
  size_t at(size_t i, size_t j, int m) const {
    return (i * (n + 1) + j) * static_cast<size_t>(slots + 1) + static_cast<size_t>(m);
  }
  int input(size_t i) const { return i ? a[i - 1] : 0; }
  /// The gradient in memory while the forward of [i, j) runs: none before the turn.
  int gradient(size_t j) const { return j == n ? 0 : g[j]; }

  /// Slots for running f_i..f_{k-1} from a_{i-1}.
  int forwardSlots(size_t i, size_t k, size_t j) const {
    int most = 0;
    for (size_t t = i; t < k; ++t) {
      int previous = t > i ? a[t - 1] : 0; // the segment's input is counted once
      most = std::max(most, previous + a[t]);
    }
    return input(i) + gradient(j) + most;
  }

  /// Slots for the single backward b_i, its gradient in place (or the turn through f_{n-1}).
  int singleSlots(size_t i) const {
    int incoming = i + 1 == n ? a[n - 1] : g[i + 1];
    return input(i) + incoming + g[i];
  }

  Cost solve(size_t i, size_t j, int m) {
    if (m < 0)
      return impossible;
    Cost &memo = best[at(i, j, m)];
    if (memo != unknown)
      return memo;
    Cost result = impossible;
    size_t chosen = 0;
    if (j == i + 1) {
      if (singleSlots(i) <= m)
        result = chain.backwardCost[i] + (j == n ? chain.forwardCost[i] : 0);
    } else {
      Cost forward = 0;
      for (size_t k = i + 1; k < j; ++k) {
        forward += chain.forwardCost[k - 1];
        if (forwardSlots(i, k, j) > m)
          break;
        Cost right = solve(k, j, m - input(i));
        if (right == impossible)
          continue;
        Cost left = solve(i, k, m);
        if (left == impossible)
          continue;
        if (forward + right + left < result) {
          result = forward + right + left;
          chosen = k;
        }
      }
    }
    best[at(i, j, m)] = result;
    choice[at(i, j, m)] = static_cast<int32_t>(chosen);
    return result;
  }

  void emit(size_t i, size_t j, int m, Sequence &out) {
    if (j == i + 1) {
      if (j == n)
        out.push_back(chain.forward[i]);
      out.push_back(chain.backward[i]);
      return;
    }
    const size_t k = static_cast<size_t>(choice[at(i, j, m)]);
    for (size_t t = i; t < k; ++t)
      out.push_back(chain.forward[t]);
    emit(k, j, m - input(i), out);
    emit(i, k, m, out);
  }

  const Chain &chain;
  const size_t n;
  int slots = 0;
  std::vector<int> a, g;
  std::vector<Cost> best;
  std::vector<int32_t> choice;
};

} // namespace

std::optional<Sequence> rotorSchedule(const Graph &graph, const Chain &chain, Bytes budgetBytes,
                                      int slots) {
  std::optional<Sequence> result = Rotor(chain, budgetBytes, slots).schedule();
  if (result && measure(graph, *result).peakBytes > budgetBytes)
    return std::nullopt;
  return result;
}

} // namespace stow::schedule
