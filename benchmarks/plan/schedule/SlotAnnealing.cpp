#include "SlotAnnealing.h"

#include "passes/solvers/schedule/Timeline.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>
#include <tuple>

namespace stow::schedule {
namespace {

class Annealing {
public:
  Annealing(const Graph &graph, Bytes budget, uint64_t seed)
      : graph(graph), budget(budget), timeline(graph, graph.inputOrder()), random(seed) {
    keep();
  }

  PeerResult run(double seconds) {
    constexpr double hot = 1e-2, cold = 1e-6;
    const double start = now();
    double energy = energyNow(), temperature = hot;
    for (;; ++best.moves) {
      if (best.moves % 256 == 0) {
        const double progress = (now() - start) / seconds;
        if (progress >= 1 || graph.ops.empty())
          return best;
        temperature = hot * std::pow(cold / hot, progress);
      }
      if (!propose())
        continue;
      const double changed = energyNow();
      if (timeline.violations() > 0 || changed - energy > -temperature * std::log(unit())) {
        undo();
        continue;
      }
      energy = changed;
      keep();
    }
  }

private:
  static double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
  double unit() { return (static_cast<double>(random() >> 11) + 1) * 0x1p-53; }
  int32_t below(size_t limit) { return static_cast<int32_t>(random() % limit); }

  /// The logarithm of the objective: temperatures are relative changes.
  double energyNow() const {
    return std::log(static_cast<double>(std::max(budget, timeline.peak())) + 1) +
           std::log(static_cast<double>(timeline.time()) + 1);
  }

  void keep() {
    auto key = [&](Bytes peak, Cost time) { return std::tuple(std::max(peak, budget), time); };
    if (best.time == 0 || key(timeline.peak(), timeline.time()) < key(best.peakBytes, best.time)) {
      best.time = timeline.time();
      best.peakBytes = timeline.peak();
    }
  }

  /// One move; false if the one drawn is impossible. `removed` and `added` say how to undo it.
  bool propose() {
    removed = added = {Timeline::none, Timeline::none};
    const int32_t op = below(graph.ops.size());
    const std::vector<int32_t> &runs = timeline.runsOf(op);
    const int32_t kind = below(3);
    if (kind == 0) { // add
      const int32_t slot = below(timeline.slotCount());
      if (!graph.ops[op].recomputable || slot <= runs.front() || !mayStand(op, slot))
        return false;
      put(op, slot);
      return true;
    }
    const int32_t from = runs[below(runs.size())];
    if (kind == 1) { // take out
      if (!timeline.removable(from))
        return false;
      take(op, from);
      return true;
    }
    // Move: readers that would lose their only supplier forbid it.
    int32_t left = 0, right = timeline.slotCount();
    for (int32_t output : graph.ops[op].outputs)
      right = std::min(right, timeline.nextReadAfter(output, from));
    for (int32_t input : graph.ops[op].inputs)
      if (graph.values[input].producer)
        left = std::max(left, timeline.runsOf(*graph.values[input].producer).front() + 1);
    if (right - left < 2)
      return false;
    const int32_t slot = left + below(right - left);
    if (timeline.runAt(slot) != Timeline::none)
      return false;
    take(op, from);
    put(op, slot);
    return true;
  }

  bool mayStand(int32_t op, int32_t slot) const {
    bool served = timeline.runAt(slot) == Timeline::none;
    for (int32_t input : graph.ops[op].inputs)
      served &= timeline.servedFrom(input, slot) != Timeline::none;
    return served;
  }

  void put(int32_t op, int32_t slot) {
    timeline.add(op, slot);
    added = {op, slot};
  }
  void take(int32_t op, int32_t slot) {
    timeline.remove(slot);
    removed = {op, slot};
  }
  void undo() {
    if (added.first != Timeline::none)
      timeline.remove(added.second);
    if (removed.first != Timeline::none)
      timeline.add(removed.first, removed.second);
  }

  const Graph &graph;
  const Bytes budget;
  Timeline timeline;
  std::mt19937_64 random;
  std::pair<int32_t, int32_t> added, removed; ///< op and slot
  PeerResult best;
};

} // namespace

PeerResult annealSlots(const Graph &graph, Bytes budgetBytes, double seconds, uint64_t seed) {
  return Annealing(graph, budgetBytes, seed).run(seconds);
}

} // namespace stow::schedule
