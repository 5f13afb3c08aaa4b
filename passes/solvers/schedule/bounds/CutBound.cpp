#include "passes/solvers/schedule/bounds/CutBound.h"

#include "passes/solvers/schedule/bounds/PebbleBound.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

namespace stow::schedule {

CutBound::CutBound(const Graph &graph) : graph(graph) {
  Cost total = 0;
  for (const GraphOp &op : graph.ops)
    total += op.leastCost;
  costShift = scaleShift(total);
  leastPeak = graph.baseBytes;
  Bytes kept = graph.baseBytes;
  for (const GraphValue &value : graph.values)
    if (value.keep)
      kept += value.sizeBytes;
  if (!graph.ops.empty())
    leastPeak = std::max(leastPeak, kept);
  computePressure();
  findPeakBound();
}

/// What must be in memory at the first run of an op, from the most such bytes on, and on the way
/// there.
void CutBound::findPeakBound() {
  constexpr size_t enough = 32;
  constexpr int64_t workPerOp = 50'000;
  std::vector<int32_t> ops(graph.ops.size());
  std::iota(ops.begin(), ops.end(), 0);
  std::sort(ops.begin(), ops.end(), [&](int32_t a, int32_t b) {
    return std::pair(-mandatoryOf[a], a) < std::pair(-mandatoryOf[b], b);
  });
  if (ops.size() > enough)
    ops.resize(enough);
  for (int32_t v : ops) {
    leastPeak = std::max(leastPeak, mandatoryOf[v]);
    const SaveOrRerun::Boundary boundary = firstRunOf(v);
    std::vector<int32_t> together = graph.ops[v].inputs;
    for (int32_t value : boundary.needed)
      if (const auto &producer = graph.values[value].producer;
          !producer || boundary.fixed[*producer])
        together.push_back(value);
    leastPeak =
        std::max(leastPeak, pebbleBound(graph, std::move(together), mandatoryOf[v], workPerOp));
  }
}

/// Blocks of 64 ops whose pressure is computed: all of them, or on graphs where that takes too much
/// work those that the most bytes cross in input order, which no pressure exceeds.
std::vector<size_t> CutBound::blocksOfPressure(const std::vector<int32_t> &lastReader) const {
  constexpr size_t most = 32'000'000; // ops and reads looked at
  const size_t count = graph.ops.size();
  size_t once = count + graph.values.size();
  for (const GraphOp &op : graph.ops)
    once += 2 * op.inputs.size();
  std::vector<size_t> blocks;
  for (size_t base = 0; base < count; base += 64)
    blocks.push_back(base);
  const size_t affordable = std::max<size_t>(most / std::max<size_t>(once, 1), 1);
  if (blocks.size() <= affordable)
    return blocks;
  std::vector<Bytes> change(count + 1, 0);
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (lastReader[i] >= 0) {
      change[graph.values[i].producer.value_or(0)] += graph.values[i].sizeBytes;
      change[std::min<size_t>(lastReader[i] + 1, count)] -= graph.values[i].sizeBytes;
    }
  std::vector<Bytes> crossing(blocks.size(), 0);
  Bytes now = 0;
  for (size_t v = 0; v < count; ++v) {
    now += change[v];
    crossing[v / 64] = std::max(crossing[v / 64], now + graph.ops[v].leastWorkspaceBytes);
  }
  std::sort(blocks.begin(), blocks.end(), [&](size_t a, size_t b) {
    return std::pair(-crossing[a / 64], a) < std::pair(-crossing[b / 64], b);
  });
  blocks.resize(affordable);
  return blocks;
}

/// For every op v: bytes of values that an op not below v writes and an op below v reads, with the
/// writer above v (they exist when v runs). Those that no op may write again stay in memory while v
/// runs for the first time, in every schedule. 64 ops v at a time, one bit lane each.
void CutBound::computePressure() {
  const size_t count = graph.ops.size();
  pressureOf.assign(count, 0);
  mandatoryOf.assign(count, 0);
  std::vector<uint64_t> above(count), below(count);
  std::vector<int32_t> lastReader(graph.values.size(), -1);
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (const GraphValue &value = graph.values[i]; value.keep)
      lastReader[i] = static_cast<int32_t>(count);
    else if (!value.readers.empty())
      lastReader[i] = *std::max_element(value.readers.begin(), value.readers.end());
  for (size_t base : blocksOfPressure(lastReader)) {
    const size_t end = std::min(count, base + 64);
    std::fill(above.begin(), above.begin() + end, 0);
    std::fill(below.begin() + base, below.end(), 0);
    for (size_t v = base; v < end; ++v)
      above[v] = below[v] = uint64_t(1) << (v - base);
    for (size_t u = end; u-- > 0;)
      for (int32_t value : graph.ops[u].inputs)
        if (graph.values[value].producer)
          above[*graph.values[value].producer] |= above[u];
    for (size_t u = base; u < count; ++u)
      for (int32_t value : graph.ops[u].inputs)
        if (graph.values[value].producer &&
            *graph.values[value].producer >= static_cast<int32_t>(base))
          below[u] |= below[*graph.values[value].producer];
    std::array<Bytes, 64> across{}, mandatory{};
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (lastReader[i] < static_cast<int32_t>(base))
        continue;
      const GraphValue &value = graph.values[i];
      if (value.sizeBytes == 0 || (value.producer && *value.producer >= static_cast<int32_t>(end)))
        continue;
      uint64_t read = value.keep ? ~uint64_t(0) : 0, own = 0;
      for (int32_t reader : value.readers) {
        if (reader < static_cast<int32_t>(base))
          continue;
        read |= below[reader];
        if (reader < static_cast<int32_t>(end))
          own |= uint64_t(1) << (reader - base);
      }
      uint64_t written = value.producer ? above[*value.producer] : ~uint64_t(0);
      if (value.producer && *value.producer >= static_cast<int32_t>(base))
        own |= uint64_t(1) << (*value.producer - base);
      const bool stays = !value.producer || !graph.ops[*value.producer].recomputable;
      for (uint64_t lanes = written & read & ~own; lanes; lanes &= lanes - 1) {
        across[std::countr_zero(lanes)] += value.sizeBytes;
        mandatory[std::countr_zero(lanes)] += stays ? value.sizeBytes : 0;
      }
    }
    for (size_t v = base; v < end; ++v) {
      const Bytes own = graph.footprint(static_cast<int32_t>(v));
      pressureOf[v] = across[v - base] + own;
      mandatoryOf[v] = mandatory[v - base] + own;
    }
  }
  byPressure.resize(count);
  std::iota(byPressure.begin(), byPressure.end(), 0);
  std::sort(byPressure.begin(), byPressure.end(), [&](int32_t a, int32_t b) {
    return std::pair(-pressureOf[a], a) < std::pair(-pressureOf[b], b);
  });
}

SaveOrRerun::Boundary CutBound::firstRunOf(int32_t v) const {
  const size_t count = graph.ops.size();
  std::vector<char> below(count, 0), above(count, 0);
  below[v] = above[v] = 1;
  for (size_t u = v + 1; u < count; ++u)
    for (int32_t value : graph.ops[u].inputs)
      if (graph.values[value].producer && below[*graph.values[value].producer]) {
        below[u] = 1;
        break;
      }
  for (int32_t u = v + 1; u-- > 0;)
    if (above[u])
      for (int32_t value : graph.ops[u].inputs)
        if (graph.values[value].producer)
          above[*graph.values[value].producer] = 1;

  SaveOrRerun::Boundary boundary;
  boundary.free.assign(graph.values.size(), 0);
  boundary.fixed.assign(count, 0);
  boundary.rerunCost.assign(count, 0);
  for (int32_t value : graph.ops[v].inputs)
    boundary.free[value] = 1;
  for (int32_t value : graph.ops[v].outputs)
    boundary.free[value] = 1;
  for (size_t u = 0; u < count; ++u) {
    // Ops that are not above v may run for the first time after it: that costs nothing extra.
    boundary.rerunCost[u] = above[u] ? graph.ops[u].leastCost << costShift : 0;
    boundary.fixed[u] = above[u] && !graph.ops[u].recomputable;
  }
  for (size_t a = 0; a < graph.values.size(); ++a) {
    const GraphValue &value = graph.values[a];
    if (value.producer && below[*value.producer])
      continue;
    bool needed = value.keep;
    for (int32_t reader : value.readers)
      needed |= below[reader] && reader != v;
    if (needed)
      boundary.needed.push_back(static_cast<int32_t>(a));
  }
  if (graph.hasViews) {
    boundary.follows.assign(graph.values.size(), 0);
    for (int32_t value : boundary.needed)
      boundary.follows[value] = graph.goesWithViewed(value);
    boundary.spreadFixed(graph);
  }
  return boundary;
}

CutBound::Candidate &CutBound::candidateFor(int32_t v) {
  Candidate &candidate = candidates[v];
  if (!candidate.cut)
    candidate.cut = std::make_unique<SaveOrRerun>(graph, firstRunOf(v));
  return candidate;
}

const SaveOrRerun::Answer &CutBound::solveAt(Candidate &candidate, double price) {
  auto [found, isNew] = candidate.solved.try_emplace(price);
  if (isNew) {
    found->second = candidate.cut->solve(price);
    found->second.reruns = {}; // the bound needs the sums only
  }
  return found->second;
}

/// Newton's method on the concave function price -> cut value - price * room: two lines bracket the
/// maximum, the next price is where they meet.
CutBound::Best CutBound::maximize(Candidate &candidate, Bytes room) {
  Best best;
  struct Line {
    double cost, bytes;
  };
  auto lineAt = [&](double price) {
    const SaveOrRerun::Answer &answer = solveAt(candidate, price);
    if (const int64_t value = answer.value - priceUp(price, room); value > best.value)
      best = {value, price};
    return Line{static_cast<double>(answer.rerunCost), static_cast<double>(answer.keptBytes)};
  };
  const auto most = static_cast<double>(room);
  Line left = lineAt(0); // nothing is run again, everything needed is kept
  if (left.bytes <= most)
    return best;
  Line right = lineAt(static_cast<double>(candidate.cut->ceiling()));
  if (right.bytes > most)
    return best; // the line at the high price already says so
  for (int i = 0; i < 24; ++i) {
    const double price = (right.cost - left.cost) / (left.bytes - right.bytes);
    if (!(price > 0) || !std::isfinite(price))
      break;
    const Line line = lineAt(price);
    const bool onLeft =
        line.cost + price * line.bytes >= (left.cost + price * left.bytes) * (1 - 1e-12);
    if (onLeft || line.bytes == left.bytes || line.bytes == right.bytes)
      break;
    (line.bytes > most ? left : right) = line;
  }
  return best;
}

CutBound::Proof CutBound::refine(Bytes budgetBytes, int opCount) {
  // Take the ops of highest pressure, and a spread over the rest down to half of the budget: the
  // best op is near the peak, but not always at it, and pressure leaves out what ops beside it
  // need.
  size_t promising = 0;
  while (promising < byPressure.size() &&
         pressureOf[byPressure[promising]] > budgetBytes - budgetBytes / 2)
    ++promising;
  std::vector<int32_t> chosen;
  const size_t want = std::min<size_t>(promising, static_cast<size_t>(std::max(opCount, 1)));
  const size_t top = (want + 1) / 2;
  for (size_t i = 0; i < top; ++i)
    chosen.push_back(byPressure[i]);
  for (size_t i = top; i < want; ++i)
    chosen.push_back(byPressure[top + (i - top) * (promising - top) / (want - top)]);
  Best best;
  Proof proof;
  for (int32_t op : chosen)
    if (const Bytes room = budgetBytes - graph.footprint(op); room >= 0)
      if (const Best here = maximize(candidateFor(op), room); here.value > best.value) {
        best = here;
        proof.op = op;
      }
  proof.price = best.price;
  if (budgetBytes >= leastPeak)
    proof.time = timeOfScaled(best.value);
  return proof;
}

Cost CutBound::timeOfScaled(int64_t scaled) const {
  Cost extra = (scaled + (int64_t(1) << costShift) - 1) >> costShift;
  extra = (extra + graph.costStep - 1) / graph.costStep * graph.costStep;
  if (scaled > 0)
    extra = std::max(extra, graph.leastExtra);
  return graph.leastTime + extra;
}

} // namespace stow::schedule
