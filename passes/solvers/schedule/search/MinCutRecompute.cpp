#include "passes/solvers/schedule/search/MinCutRecompute.h"

#include "passes/solvers/schedule/Effort.h"
#include "passes/solvers/schedule/Timeline.h"
#include "passes/solvers/schedule/search/Restore.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <tuple>

namespace stow::schedule {
namespace {
constexpr size_t never = std::numeric_limits<size_t>::max();

/// Sequences longer than this are given up.
size_t mostRuns(const Graph &graph) { return 8 * graph.ops.size() + 64; }
} // namespace

SequenceCut::SequenceCut(const Graph &graph, const Sequence &given, size_t at,
                         const std::vector<char> *barred)
    : graph(graph), sequence(given), position(at), nextRead(graph.values.size(), never),
      destroyedAt(graph.values.size(), never), biases(graph.values.size(), 1.0) {
  findLiveness();
  SaveOrRerun::Boundary boundary;
  boundary.needed = liveAcross;
  boundary.free.assign(graph.values.size(), 0);
  boundary.rerunCost.assign(graph.ops.size(), 0);
  const GraphOp &here = graph.ops[sequence[position]];
  for (int32_t value : here.inputs)
    boundary.free[value] = 1;
  for (int32_t value : here.outputs)
    boundary.free[value] = 1;
  Cost total = 0;
  for (const GraphOp &op : graph.ops)
    total += op.cost;
  shift = scaleShift(total);
  for (size_t op = 0; op < graph.ops.size(); ++op) // a rerun of no cost still breaks a tie
    boundary.rerunCost[op] = std::max<Cost>(graph.ops[op].cost << shift, 1);
  boundary.fixed = fixedOps(barred);
  boundary.gone = gone;
  if (graph.hasViews) // those written before the position are written again with what they view
    boundary.follows = isWritten;
  boundary.spreadFixed(graph);
  for (int32_t value : liveAcross)
    if (!boundary.free[value])
      across += graph.values[value].sizeBytes;
  fixed = boundary.fixed;
  cut = std::make_unique<SaveOrRerun>(graph, std::move(boundary));
}

/// Ops that may not run again behind the position, taken by themselves.
std::vector<char> SequenceCut::fixedOps(const std::vector<char> *barred) const {
  std::vector<char> isRead(graph.values.size(), 0), isFixed(graph.ops.size(), 0);
  for (int32_t value : liveAcross)
    isRead[value] = 1;
  for (size_t op = 0; op < graph.ops.size(); ++op) {
    isFixed[op] = !graph.ops[op].recomputable || (barred && (*barred)[op]);
    for (int32_t value : graph.ops[op].inputs)
      isFixed[op] |= destroyedAt[value] <= position;
    // What is there and still to be read may not be overwritten once more.
    for (const Credit &credit : graph.ops[op].credits)
      if (credit.required &&
          (!graph.mayComeAgain(credit.input) || (isRead[credit.input] && !isGone(credit.input))))
        isFixed[op] = 1;
  }
  return isFixed;
}

void SequenceCut::findLiveness() {
  std::vector<size_t> writtenAt(graph.values.size(), never), lastRead(graph.values.size(), never);
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (!graph.values[v].producer)
      writtenAt[v] = 0;
  if (graph.hasOverwrites)
    gone.assign(graph.values.size(), 0);
  for (size_t i = 0; i <= position; ++i) {
    if (graph.hasOverwrites)
      for (const Credit &credit : graph.ops[sequence[i]].credits)
        gone[credit.input] |= credit.required;
    for (int32_t value : graph.ops[sequence[i]].outputs) {
      writtenAt[value] = i;
      if (graph.hasOverwrites)
        gone[value] = 0;
    }
  }
  std::vector<char> rewritten(graph.values.size(), 0);
  for (size_t i = position + 1; i < sequence.size(); ++i) {
    for (int32_t value : graph.ops[sequence[i]].inputs)
      if (!rewritten[value]) {
        if (nextRead[value] == never)
          nextRead[value] = i;
        lastRead[value] = i;
      }
    for (int32_t value : graph.ops[sequence[i]].outputs)
      rewritten[value] = 1;
  }
  for (size_t i = 0; i < sequence.size(); ++i)
    for (const Credit &credit : graph.ops[sequence[i]].credits)
      if (credit.required && !graph.mayComeAgain(credit.input) &&
          destroyedAt[credit.input] == never)
        destroyedAt[credit.input] = i;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    bool exists = writtenAt[v] != never && (!graph.values[v].producer || writtenAt[v] < position);
    if (graph.values[v].keep && !rewritten[v]) {
      lastRead[v] = sequence.size();
      nextRead[v] = std::min(nextRead[v], sequence.size());
    }
    if (exists && lastRead[v] != never)
      liveAcross.push_back(static_cast<int32_t>(v));
    isWritten.push_back(exists);
    if (writtenAt[v] != never && position > 0)
      biases[v] = 1.0 - static_cast<double>(std::min(writtenAt[v], position)) /
                            static_cast<double>(position);
  }
}

SequenceCut::Plan SequenceCut::solve(double pricePerByte, double bias) {
  std::vector<double> weights;
  if (bias > 0) {
    weights.resize(biases.size());
    for (size_t v = 0; v < biases.size(); ++v)
      weights[v] = 1.0 + bias * biases[v];
  }
  SaveOrRerun::Answer answer =
      cut->solve(std::ldexp(pricePerByte, shift), bias > 0 ? &weights : nullptr);
  Plan plan;
  for (int32_t op : answer.reruns)
    plan.rerunCost += graph.ops[op].cost;
  plan.keptBytes = answer.keptBytes;
  plan.reruns = std::move(answer.reruns);
  return plan;
}

Sequence SequenceCut::apply(const Plan &plan) {
  // Backwards over the reruns (ascending op ids are topological): each is needed just before the
  // first reader of its outputs, which is a run of the suffix or another rerun.
  std::vector<size_t> neededAt(graph.ops.size(), never);
  std::vector<char> isRerun(graph.ops.size(), 0), isLive(graph.values.size(), 0);
  for (int32_t op : plan.reruns)
    isRerun[op] = 1;
  for (int32_t value : liveAcross)
    isLive[value] = 1;
  std::vector<std::pair<size_t, int32_t>> inserts;
  for (size_t i = plan.reruns.size(); i-- > 0;) {
    const int32_t op = plan.reruns[i];
    size_t first = never;
    for (int32_t value : graph.ops[op].outputs) {
      if (isLive[value])
        first = std::min(first, nextRead[value]);
      for (int32_t reader : graph.values[value].readers)
        if (isRerun[reader])
          first = std::min(first, neededAt[reader]);
    }
    for (int32_t value : graph.ops[op].inputs)
      for (int32_t overwriter : graph.values[value].overwriters)
        if (isRerun[overwriter] && overwriter != op)
          first = std::min(first, neededAt[overwriter]);
    bool possible = first != never;
    for (int32_t value : graph.ops[op].inputs)
      possible &= destroyedAt[value] == never || first <= destroyedAt[value];
    neededAt[op] = possible ? first : never;
    if (possible)
      inserts.push_back({first, op});
  }
  std::sort(inserts.begin(), inserts.end());
  Sequence result;
  result.reserve(sequence.size() + inserts.size());
  size_t next = 0;
  for (size_t i = 0; i <= sequence.size(); ++i) {
    for (; next < inserts.size() && inserts[next].first == i; ++next)
      result.push_back(inserts[next].second);
    if (i < sequence.size())
      result.push_back(sequence[i]);
  }
  if (!graph.hasOverwrites)
    return result;
  return restoreOverwritten(graph, result, mostRuns(graph)).value_or(sequence);
}

std::optional<SequenceCut::Plan> SequenceCut::cheapestWithin(Bytes room, double bias) {
  if (room < 0)
    return std::nullopt;
  std::optional<Plan> best;
  auto consider = [&](Plan plan) {
    bool fits = plan.keptBytes <= room;
    if (fits && (!best || plan.rerunCost < best->rerunCost))
      best = std::move(plan);
    return fits;
  };
  Cost total = 1;
  for (const GraphOp &op : graph.ops)
    total += op.cost;
  // The price of a byte lies between a fraction of the whole cost spread over all bytes, and the
  // whole cost for a single byte. Bisect its logarithm.
  double low = static_cast<double>(total) / static_cast<double>(across + 1) * 1e-6;
  double high = low * 1e6 * 16;
  if (consider(solve(low, bias)))
    return best;
  bool reached = false;
  for (int i = 0; i < 4 && !reached; ++i, high *= 1024)
    reached = consider(solve(high, bias));
  if (!reached)
    return std::nullopt;
  const auto slack =
      static_cast<Bytes>(Effort(graph.ops.size(), 1).cutTolerance() * static_cast<double>(room));
  constexpr int rounds = 14;
  constexpr double closeEnough = 1.0005;
  for (int i = 0; i < rounds && high > low * closeEnough && best->keptBytes < room - slack; ++i) {
    double middle = std::sqrt(low * high);
    (consider(solve(middle, bias)) ? high : low) = middle;
  }
  return best;
}

namespace {

/// Adds what the windows withhold to the bytes at every position, and finds the peak of the sum.
void withhold(const std::vector<GraphWindow> &windows, const Sequence &sequence,
              std::vector<Bytes> &bytesAt, Measure &measured) {
  if (windows.empty() || sequence.empty())
    return;
  auto firstRunOf = [&](int32_t op) { return std::ranges::find(sequence, op) - sequence.begin(); };
  for (const GraphWindow &window : windows) {
    const auto [from, to] = std::minmax({firstRunOf(window.first), firstRunOf(window.last)});
    for (auto i = from; i <= to; ++i)
      bytesAt[i] += window.withheldBytes;
  }
  const auto peak = std::ranges::max_element(bytesAt);
  measured.peakBytes = *peak;
  measured.peakPosition = static_cast<size_t>(peak - bytesAt.begin());
}

} // namespace

std::optional<Sequence> reduceToBudget(const Graph &graph, Sequence sequence, Bytes budgetBytes,
                                       int rounds, double bias, const std::vector<char> *barred,
                                       int64_t *allowance,
                                       const std::vector<GraphWindow> &windows) {
  std::vector<Bytes> bytesAt, excess;
  for (int round = 0; round <= rounds; ++round) {
    Measure now = measure(graph, sequence, &bytesAt);
    if (!now.legal)
      return std::nullopt;
    withhold(windows, sequence, bytesAt, now);
    if (now.peakBytes <= budgetBytes)
      return sequence;
    if (round == rounds || sequence.size() > mostRuns(graph) || sequence.empty())
      return std::nullopt;
    // Cuts that chase a peak from place to place without lowering it are given up early.
    excess.push_back(now.peakBytes - budgetBytes);
    constexpr size_t patience = 6;
    if (excess.size() > patience && excess.back() > excess[excess.size() - 1 - patience] / 4 * 3)
      return std::nullopt;
    SequenceCut cut(graph, sequence, now.peakPosition, barred);
    Bytes room = budgetBytes - (bytesAt[now.peakPosition] - cut.acrossBytes());
    std::optional<SequenceCut::Plan> plan = cut.cheapestWithin(room, bias);
    if (allowance && (*allowance -= cut.work()) <= 0)
      return std::nullopt;
    if (!plan || plan->reruns.empty())
      return std::nullopt;
    Sequence next = cut.apply(*plan);
    if (next.size() == sequence.size())
      return std::nullopt;
    sequence = std::move(next);
  }
  return std::nullopt;
}

namespace {

/// The rerun at `slot` and those that write over what it writes, in ascending order: without the
/// rerun they would overwrite the copy of an earlier run for the second time.
std::vector<int32_t> withOverwriters(const Graph &graph, const Timeline &timeline, int32_t slot) {
  std::vector<int32_t> slots = {slot};
  for (size_t i = 0; graph.hasOverwrites && i < slots.size(); ++i) {
    const int32_t op = timeline.runAt(slots[i]);
    for (int32_t value : graph.ops[op].outputs)
      for (int32_t overwriter : graph.values[value].overwriters)
        if (const int32_t next = timeline.nextRunAfter(overwriter, slots[i]);
            next < timeline.nextRunAfter(op, slots[i]) &&
            timeline.runsOf(overwriter).front() != next && std::ranges::count(slots, next) == 0)
          slots.push_back(next);
  }
  std::ranges::sort(slots);
  return slots;
}

} // namespace

Sequence dropNeedlessReruns(const Graph &graph, const Sequence &sequence, Bytes budgetBytes,
                            const std::vector<GraphWindow> &windows) {
  struct Rerun {
    Cost cost;
    int32_t slot, op;
  };
  Timeline timeline(graph, sequence);
  for (const GraphWindow &window : windows) // first runs stay where they are
    timeline.withhold(window.first, window.last, window.withheldBytes);
  std::vector<char> seen(graph.ops.size(), 0);
  std::vector<Rerun> reruns;
  for (int32_t slot = 0; slot < timeline.slotCount(); ++slot) {
    const int32_t op = timeline.runAt(slot);
    if (op == Timeline::none)
      continue;
    if (seen[op])
      reruns.push_back({graph.ops[op].cost, slot, op});
    seen[op] = 1;
  }
  std::sort(reruns.begin(), reruns.end(), [](const Rerun &a, const Rerun &b) {
    return std::pair(-a.cost, a.slot) < std::pair(-b.cost, b.slot);
  });
  // A view is needed as long as what it views runs again.
  for (bool again = true; again;) {
    again = false;
    std::vector<Rerun> left;
    for (const Rerun &rerun : reruns) {
      if (timeline.runAt(rerun.slot) == Timeline::none) // gone with another
        continue;
      std::vector<std::pair<int32_t, int32_t>> removed;
      for (int32_t slot : withOverwriters(graph, timeline, rerun.slot) | std::views::reverse) {
        removed.push_back({timeline.runAt(slot), slot});
        timeline.remove(slot);
      }
      const bool isNeeded = timeline.violations() > 0;
      if (isNeeded || timeline.peak() > budgetBytes)
        for (auto [op, slot] : removed | std::views::reverse)
          timeline.add(op, slot);
      else
        again |= !left.empty();
      if (isNeeded)
        left.push_back(rerun);
    }
    reruns = std::move(left);
  }
  return timeline.sequence();
}

Sequence delayReruns(const Graph &graph, const Sequence &sequence) {
  std::vector<char> seen(graph.ops.size(), 0), pending(graph.ops.size(), 0);
  Sequence result;
  // Emits an op after the pending reruns it reads from; reruns nest no deeper than the graph, so an
  // explicit stack of (op, next input to look at) replaces recursion.
  std::vector<std::pair<int32_t, size_t>> stack;
  auto emit = [&](int32_t op) {
    stack.push_back({op, 0});
    while (!stack.empty()) {
      auto &[current, next] = stack.back();
      const std::vector<int32_t> &inputs = graph.ops[current].inputs;
      std::optional<int32_t> first;
      while (next < inputs.size() && !first) {
        const std::optional<int32_t> &producer = graph.values[inputs[next++]].producer;
        if (producer && pending[*producer])
          first = producer;
      }
      if (first) {
        pending[*first] = 0;
        stack.push_back({*first, 0});
        continue;
      }
      result.push_back(current);
      stack.pop_back();
    }
  };
  for (int32_t op : sequence) {
    if (!seen[op]) {
      // What a destroyer destroys must have been read by then.
      for (const Credit &credit : graph.ops[op].credits)
        if (credit.required)
          for (int32_t reader : graph.values[credit.input].readers)
            if (pending[reader] && reader != op) {
              pending[reader] = 0;
              emit(reader);
            }
      seen[op] = 1;
      emit(op);
    } else {
      pending[op] = 1;
    }
  }
  for (size_t op = 0; op < pending.size(); ++op) {
    bool kept = std::any_of(graph.ops[op].outputs.begin(), graph.ops[op].outputs.end(),
                            [&](int32_t value) { return graph.values[value].keep; });
    if (pending[op] && kept) {
      pending[op] = 0;
      emit(static_cast<int32_t>(op));
    }
  }
  return result;
}

std::vector<SweptCut> sweepPrices(const Graph &graph, const Sequence &base, int prices,
                                  const std::vector<char> *barred, int64_t *allowance) {
  std::vector<SweptCut> all;
  const Measure start = measure(graph, base);
  if (!start.legal || base.empty())
    return all;
  SequenceCut cut(graph, base, start.peakPosition, barred);
  const double unit =
      static_cast<double>(start.time + 1) / static_cast<double>(cut.acrossBytes() + 1);
  // Below 2^-20 of the mean price nothing is worth a rerun; above 2^12 of it everything is.
  constexpr double lowest = -20, highest = 12;
  Cost lastCost = -1;
  for (int i = 0; i < prices && cut.work() <= *allowance; ++i) {
    const double exponent = lowest + (highest - lowest) * i / std::max(prices - 1, 1);
    const SequenceCut::Plan plan = cut.solve(unit * std::exp2(exponent), 0.5);
    if (plan.rerunCost == lastCost || plan.reruns.empty())
      continue;
    lastCost = plan.rerunCost;
    Sequence sequence = cut.apply(plan);
    const Measure now = measure(graph, sequence);
    if (now.legal)
      all.push_back({now.peakBytes, now.time, std::move(sequence)});
  }
  *allowance -= cut.work();
  return all;
}

} // namespace stow::schedule
