#include "passes/solvers/schedule/bounds/LaneBound.h"

#include <algorithm>
#include <cmath>

namespace stow::schedule {
namespace {

constexpr int64_t kWhole = 8; ///< weights are eighths
/// Fetches dearer than this are none (SaveOrRerun adds them up).
constexpr int64_t kDearest = int64_t(1) << 56;

} // namespace

Cost lowerBoundOfCopies(const Problem &problem, const Lanes &lanes) {
  Cost out = 0, in = 0;
  for (const Op &op : problem.ops)
    if (op.lane == OpLane::Out)
      out += lanes.out.duration(problem.sizeOf(op.inputs.front()));
    else if (op.lane == OpLane::In)
      in += lanes.in.duration(problem.sizeOf(op.outputs.front()));
  return std::max(out, in);
}

LaneBound::LaneBound(const Graph &graph, CutBound &cuts, const Lanes &lanes)
    : graph(graph), cuts(cuts), lanes(lanes), leastPeak(graph.baseBytes) {
  Cost total = graph.leastTime;
  Bytes kept = graph.baseBytes;
  for (const GraphValue &value : graph.values) {
    total = std::min(
        total + lanes.out.duration(value.sizeBytes) + lanes.in.duration(value.sizeBytes), kDearest);
    kept += value.keep ? value.sizeBytes : 0;
  }
  shift = std::max(scaleShift(total) - 3, 0); // weights add three bits
  if (graph.ops.empty())
    return;
  leastPeak = std::max(leastPeak, kept);
  for (size_t op = 0; op < graph.ops.size(); ++op)
    leastPeak = std::max(leastPeak, graph.footprint(static_cast<int32_t>(op)));
  if (!graph.hasOverwrites && lanes.slowBytes < cuts.peakBound())
    leastPeak = std::max(leastPeak, cuts.peakBound() - lanes.slowBytes);
}

LaneBound::Side LaneBound::sideOf(int32_t op) const {
  const size_t count = graph.ops.size();
  std::vector<char> above(count, 0), below(count, 0);
  Side side = {op, 0, 0};
  above[op] = below[op] = 1;
  for (int32_t u = op + 1; u-- > 0;)
    if (above[u]) {
      side.withAbove += graph.ops[u].leastCost;
      for (int32_t value : graph.ops[u].inputs)
        if (graph.values[value].producer)
          above[*graph.values[value].producer] = 1;
    }
  for (size_t u = op; u < count; ++u) {
    for (int32_t value : graph.ops[u].inputs)
      if (const auto &producer = graph.values[value].producer; producer && below[*producer])
        below[u] = 1;
    side.withBelow += below[u] ? graph.ops[u].leastCost : 0;
  }
  return side;
}

/// As CutBound::maximize: Newton's method on the concave function price -> value - price * room.
Cost LaneBound::boundAt(const Side &side, const Weights &weights, Bytes room) {
  SaveOrRerun::Boundary boundary = cuts.firstRunOf(side.op);
  for (size_t op = 0; op < graph.ops.size(); ++op)
    if (boundary.rerunCost[op] != 0)
      boundary.rerunCost[op] = (graph.ops[op].leastCost * (weights.all + weights.out)) << shift;
  for (const GraphValue &value : graph.values)
    boundary.fetchCost.push_back(std::min(weights.out * lanes.out.duration(value.sizeBytes) +
                                              weights.in * lanes.in.duration(value.sizeBytes),
                                          kDearest >> shift)
                                 << shift);
  SaveOrRerun cut(graph, std::move(boundary));
  int64_t best = 0;
  struct Line {
    double cost, bytes;
  };
  auto lineAt = [&](double price) {
    const SaveOrRerun::Answer answer = cut.solve(price);
    best = std::max(best, answer.value - priceUp(price, room));
    return Line{static_cast<double>(answer.rerunCost) + static_cast<double>(answer.fetchCost),
                static_cast<double>(answer.keptBytes)};
  };
  const auto most = static_cast<double>(room);
  Line left = lineAt(0);
  if (left.bytes > most) {
    Line right = lineAt(static_cast<double>(cut.ceiling()));
    for (int i = 0; i < 24 && right.bytes <= most; ++i) {
      const double price = (right.cost - left.cost) / (left.bytes - right.bytes);
      if (!(price > 0) || !std::isfinite(price))
        break;
      const Line line = lineAt(price);
      const bool isOnLine =
          line.cost + price * line.bytes >= (left.cost + price * left.bytes) * (1 - 1e-12);
      if (isOnLine || line.bytes == left.bytes || line.bytes == right.bytes)
        break;
      (line.bytes > most ? left : right) = line;
    }
  }
  const __int128 sides = (static_cast<__int128>(weights.all) * graph.leastTime +
                          static_cast<__int128>(weights.out) * side.withBelow +
                          static_cast<__int128>(weights.in) * side.withAbove)
                         << shift;
  const __int128 unit = static_cast<__int128>(kWhole) << shift;
  return static_cast<Cost>((sides + best + unit - 1) / unit);
}

std::optional<Cost> LaneBound::time(Bytes budgetBytes, int opCount) {
  if (budgetBytes < leastPeak)
    return std::nullopt;
  Cost bound = graph.leastTime;
  if (!graph.hasOverwrites) {
    constexpr Bytes most = int64_t(1) << 60;
    const Bytes both = std::min(budgetBytes, most) + std::min(lanes.slowBytes, most);
    if (const std::optional<Cost> together = cuts.refine(both, opCount).time)
      bound = std::max(bound, *together);
  }
  // First where the lanes matter, with one set of weights; then all weights at the best ops.
  std::vector<std::pair<Cost, Side>> sides;
  const std::vector<int32_t> &ops = cuts.opsByPressure();
  const size_t count = std::min(ops.size(), static_cast<size_t>(std::max(opCount, 1)));
  for (size_t i = 0; i < count && cuts.pressure(ops[i]) > budgetBytes; ++i) {
    const Side side = sideOf(ops[i]);
    const Bytes room = budgetBytes - graph.footprint(ops[i]);
    sides.push_back({boundAt(side, {4, 2, 2}, room), side});
  }
  std::sort(sides.begin(), sides.end(), [](const auto &a, const auto &b) {
    return std::pair(-a.first, a.second.op) < std::pair(-b.first, b.second.op);
  });
  constexpr size_t closely = 2;
  for (size_t i = 0; i < sides.size(); ++i) {
    bound = std::max(bound, sides[i].first);
    if (i >= closely)
      continue;
    const Side &side = sides[i].second;
    const Bytes room = budgetBytes - graph.footprint(side.op);
    for (const Weights &weights : {Weights{0, 0, 8},
                                   {0, 8, 0},
                                   {0, 4, 4},
                                   {1, 0, 7},
                                   {2, 0, 6},
                                   {4, 0, 4},
                                   {6, 0, 2},
                                   {7, 0, 1},
                                   {0, 7, 1},
                                   {0, 6, 2},
                                   {0, 2, 6},
                                   {2, 3, 3},
                                   {6, 1, 1},
                                   {4, 4, 0}})
      bound = std::max(bound, boundAt(side, weights, room));
  }
  return bound;
}

Bytes LaneBound::peakWithin(Cost time, Bytes knownBytes, int opCount) {
  constexpr int halvings = 8;
  Bytes least = std::min(leastPeak, knownBytes), most = knownBytes;
  for (int i = 0; i < halvings && least < most; ++i) {
    const Bytes middle = least + (most - least) / 2;
    const std::optional<Cost> bound = this->time(middle, opCount);
    if (!bound || *bound > time)
      least = middle + 1;
    else
      most = middle;
  }
  return least;
}

} // namespace stow::schedule
