#include "passes/solvers/schedule/search/LocalSearch.h"

#include "ir/plan/Random.h"
#include "passes/solvers/schedule/search/EditedSchedule.h"
#include "passes/solvers/schedule/search/RerunPlan.h"

#include <algorithm>
#include <cmath>

namespace stow::schedule {
namespace {

constexpr int32_t none = Timeline::none;

class Search {
public:
  Search(const Graph &graph, const Sequence &start, const SearchOptions &options)
      : graph(graph), options(options), schedule(graph, start, options.budgetBytes),
        timeline(schedule.timeline), random(options.seed * 77 + 5), plan(graph, timeline, random) {}

  SearchResult run() {
    if (graph.ops.empty() || schedule.bestMeasure().peakBytes <= 0)
      return best();
    double meanCost = 0, meanSize = 0;
    for (const GraphOp &op : graph.ops)
      meanCost += static_cast<double>(op.cost);
    for (const GraphValue &value : graph.values)
      meanSize += static_cast<double>(value.sizeBytes);
    meanCost /= static_cast<double>(graph.ops.size());
    meanSize /= static_cast<double>(graph.values.size() + 1);
    constexpr double ofMean = 0.25;
    price = options.pricePerByte > 0 ? options.pricePerByte
                                     : meanCost / (meanSize + 1) * ofMean + 1e-12;
    const double first = options.warmth * (options.reruns ? meanCost : price * meanSize) + 1e-9;
    const double last = first * options.cooling;
    constexpr double dearer = 1.2; // what a part above the budget becomes
    setLimit();
    energy = energyNow();
    for (int64_t move = 0; move < options.moves; ++move) {
      if ((move & 63) == 0) {
        double progress = static_cast<double>(move) / static_cast<double>(options.moves);
        temperature = first * std::pow(last / first, progress);
        adjustPrice();
        if (!isForPeak())
          timeline.reweigh(dearer);
        energy = energyNow();
        if (options.cancelled && options.cancelled())
          break;
        if (crowded >= 32)
          respread();
      }
      step();
    }
    return best();
  }

private:
  SearchResult best() { return {schedule.bestSequence(), schedule.bestMeasure()}; }

  void setLimit() {
    if (!isForPeak())
      timeline.setLimit(options.budgetBytes);
  }

  /// The price of a byte rises while the schedule is over budget and falls while it is not, so
  /// that the search goes back and forth across the budget: cheap from above, small from below. As
  /// slowly as the moves allow, since schedules that come from above slowly end up cheaper.
  void adjustPrice() {
    constexpr double range = 20; // of the price's logarithm, over the whole search
    const double step = range * 64 / static_cast<double>(options.moves);
    price *= std::exp(timeline.peak() > options.budgetBytes ? step : -step);
  }

  double energyNow() const { return static_cast<double>(timeline.time()) + price * overNow(); }

  /// What the price is paid for. Reruns lower the bytes here and there, and a schedule far over the
  /// budget is over it in many places: the sum over all slots tells progress where the maximum does
  /// not. Close to the budget the maximum is what counts.
  double overNow() const {
    return isForPeak() ? static_cast<double>(aboveBudget(timeline.peak()))
                       : inParts(timeline.excess());
  }
  bool isForPeak() const { return !options.reruns || options.parts <= 0; }
  Bytes aboveBudget(Bytes peak) const { return std::max<Bytes>(0, peak - options.budgetBytes); }
  double inParts(double excess) const { return excess * options.parts / timeline.slotCount(); }

  void step() {
    schedule.begin();
    threshold = -temperature * std::log(random.real() + 1e-300);
    const bool over = timeline.peak() > options.budgetBytes;
    bool moved = false;
    if (!options.reruns) {
      moved = random.below(8) < 5 ? shiftAtPeak() : shiftAnywhere();
    } else {
      const int32_t dice = random.below(over ? 18 : 15);
      moved = dice < 1    ? retime()
              : dice < 3  ? drop()
              : dice < 8  ? shiftAtPeak()
              : dice < 12 ? shiftAnywhere()
                          : evict();
    }
    if (!moved || schedule.isEmpty()) {
      schedule.undo();
      return;
    }
    double now = energyNow();
    double rise = now - energy;
    bool accept = timeline.violations() == 0 && rise <= threshold;
    if (!accept) {
      schedule.undo();
      return;
    }
    energy = now;
    schedule.keep();
  }

  void respread() {
    schedule.respread();
    setLimit();
    crowded = 0;
  }

  // -- moves

  /// The slot to relieve: the highest one, or where the excess is.
  int32_t aim() {
    constexpr double atTop = 0.3;
    if (isForPeak() || timeline.excess() <= 0 || random.real() < atTop)
      return timeline.peakSlot();
    return timeline.slotOfExcess(random.real());
  }

  /// A random value that is live across the slot and idle there, or `none`. Trying values one by
  /// one is far cheaper than listing all that are live, which a move at another peak would throw
  /// away.
  int32_t liveAcross(int32_t slot) {
    constexpr int tries = 48;
    for (int i = 0; i < tries; ++i) {
      const int32_t value = random.below(graph.values.size());
      if (timeline.isIdleAcross(value, slot))
        return value;
    }
    return none;
  }

  bool evict() {
    const int32_t peak = aim();
    const int32_t value = liveAcross(peak);
    if (value == none)
      return false;
    const std::optional<int32_t> &producer = graph.values[value].producer;
    if (!producer || !graph.ops[*producer].recomputable)
      return false;
    int32_t next = timeline.nextReadAfter(value, peak);
    if (next == timeline.slotCount() && !graph.values[value].keep)
      return false;
    if (!plan.make(*producer, peak, next, threshold + price * overNow())) {
      crowded += plan.isCrowded();
      return false;
    }
    // Nine plans in ten end here: they are not worth it even if they take off the peak all they
    // could.
    double relief = 0;
    if (isForPeak()) {
      relief = overNow() - static_cast<double>(aboveBudget(timeline.peak() + plan.peakBytes()));
    } else if (plan.peakBytes() < 0 && timeline.peak() > options.budgetBytes) {
      const int32_t last =
          std::max(timeline.servedFrom(value, peak), timeline.lastReadBefore(value, peak));
      relief = inParts(timeline.reliefOf(last + 1, next - 1, -plan.peakBytes()));
    }
    if (static_cast<double>(plan.cost()) - price * relief > threshold)
      return false;
    for (size_t i = plan.runs().size(); i-- > 0;)
      schedule.add(plan.runs()[i].op, plan.runs()[i].slot);
    return true;
  }

  bool drop() {
    const std::vector<int32_t> &many = schedule.opsOfSeveralRuns();
    if (many.empty())
      return false;
    int32_t op = many[random.below(many.size())];
    const std::vector<int32_t> &runs = timeline.runsOf(op);
    int32_t slot = runs[random.below(runs.size())];
    if (!timeline.removable(slot))
      return false;
    dropViews(op, slot);
    if (!dropOverwriters(op, slot))
      return false;
    schedule.remove(slot);
    // Reruns that served only this one go with it.
    for (int32_t input : graph.ops[op].inputs)
      dropIfIdle(input, slot, 0);
    return true;
  }

  /// Reruns that wrote over what the run at `slot` writes: they would overwrite the copy of an
  /// earlier run for the second time. False if one of them is a first run.
  bool dropOverwriters(int32_t op, int32_t slot) {
    if (!graph.hasOverwrites)
      return true;
    for (int32_t value : graph.ops[op].outputs)
      for (int32_t overwriter : graph.values[value].overwriters) {
        const int32_t run = timeline.nextRunAfter(overwriter, slot);
        if (run >= timeline.nextRunAfter(op, slot))
          continue;
        if (!timeline.removable(run) || timeline.runsOf(overwriter).front() == run ||
            !dropOverwriters(overwriter, run))
          return false;
        schedule.remove(run);
      }
    return true;
  }

  /// Reruns that wrote into what the run at `slot` writes: an earlier run serves their readers too.
  void dropViews(int32_t op, int32_t slot) {
    for (int32_t value : graph.ops[op].outputs)
      for (int32_t view : graph.values[value].views) {
        const int32_t writer = *graph.values[view].producer;
        const int32_t run = timeline.nextRunAfter(writer, slot);
        if (run < timeline.nextRunAfter(op, slot) && timeline.runsOf(writer).front() < slot)
          schedule.remove(run);
      }
  }

  void dropIfIdle(int32_t value, int32_t slot, int depth) {
    const std::optional<int32_t> &producer = graph.values[value].producer;
    if (!producer || depth > 24 || timeline.runsOf(*producer).size() < 2)
      return;
    int32_t from = timeline.servedFrom(value, slot);
    if (from == none || !timeline.removable(from) || timeline.runsOf(*producer).front() == from)
      return;
    int32_t next = timeline.nextRunAfter(*producer, from);
    for (int32_t output : graph.ops[*producer].outputs) {
      if (timeline.nextReadAfter(output, from) < next)
        return;
      if (graph.values[output].keep && next == timeline.slotCount())
        return;
    }
    schedule.remove(from);
    for (int32_t input : graph.ops[*producer].inputs)
      dropIfIdle(input, from, depth + 1);
  }

  bool moveRun(int32_t slot, int32_t left, int32_t target, int32_t right) {
    int32_t place = timeline.emptyNear(left, std::clamp(target, left + 1, right - 1), right);
    if (place == none) {
      ++crowded;
      return false;
    }
    schedule.move(slot, place);
    return true;
  }

  /// Moves a run of an op that runs more than once, past readers and suppliers that other runs can
  /// stand in for.
  bool retime() {
    const std::vector<int32_t> &many = schedule.opsOfSeveralRuns();
    if (many.empty())
      return false;
    const int32_t op = many[random.below(many.size())];
    const std::vector<int32_t> &runs = timeline.runsOf(op);
    const int32_t slot = runs[random.below(runs.size())];
    if (!timeline.removable(slot) || runs.front() == slot)
      return false;
    int32_t left = runs.front(), right = timeline.slotCount();
    for (int32_t output : graph.ops[op].outputs)
      right = std::min(right, timeline.nextReadAfter(output, slot));
    for (int32_t input : graph.ops[op].inputs)
      if (graph.values[input].producer)
        left = std::max(left, timeline.runsOf(*graph.values[input].producer).front());
    if (right - left < 3)
      return false;
    const int32_t target = left + 1 + random.below(right - left - 1);
    if (timeline.runAt(target) != none)
      return false;
    schedule.remove(slot);
    schedule.add(op, target);
    return true;
  }

  bool shiftAnywhere() {
    int32_t op = random.below(graph.ops.size());
    const std::vector<int32_t> &runs = timeline.runsOf(op);
    int32_t slot = runs[random.below(runs.size())];
    auto [left, right] = timeline.slack(slot);
    if (right - left < 3)
      return false;
    return moveRun(slot, left, left + 1 + random.below(right - left - 1), right);
  }

  /// Gathers the run at `slot` and the suppliers from `peak` on that must go first for it to go in
  /// front of the peak. False if these are too many.
  bool gatherSuppliers(int32_t slot, int32_t peak) {
    if (std::ranges::find(group, slot) != group.end())
      return true;
    if (group.size() == mostInGroup)
      return false;
    group.push_back(slot);
    return std::ranges::all_of(graph.ops[timeline.runAt(slot)].inputs, [&](int32_t input) {
      const int32_t from = timeline.servedFrom(input, slot);
      return !graph.values[input].producer || from < peak || gatherSuppliers(from, peak);
    });
  }

  /// Gathers the run at `slot` and the readers up to `peak` that must go first for it to go behind
  /// the peak. False if these are too many.
  bool gatherReaders(int32_t slot, int32_t peak) {
    if (std::ranges::find(group, slot) != group.end())
      return true;
    if (group.size() == mostInGroup)
      return false;
    group.push_back(slot);
    const int32_t op = timeline.runAt(slot), next = timeline.nextRunAfter(op, slot);
    for (int32_t output : graph.ops[op].outputs)
      for (int32_t reader = timeline.nextReadAfter(output, slot);
           reader <= std::min(peak, next - 1); reader = timeline.nextReadAfter(output, reader))
        if (!gatherReaders(reader, peak))
          return false;
    return true;
  }

  /// Moves what is gathered to random slots on the other side of the peak.
  bool moveGroup(int32_t peak, bool later) {
    std::ranges::sort(group);
    if (later)
      std::ranges::reverse(group);
    for (int32_t slot : group) {
      auto [left, right] = timeline.slack(slot);
      (later ? left : right) = later ? std::max(left, peak) : std::min(right, peak);
      if (right - left < 2 ||
          !moveRun(slot, left, left + 1 + random.below(right - left - 1), right))
        return false;
    }
    return true;
  }

  /// Takes a value off the peak: its writer moves behind the peak, or its last reader before it.
  bool shiftAtPeak() {
    constexpr double atThePeak = 0.15;
    const int32_t peak = aim();
    int32_t slot = none;
    bool later = random.bits() >> 63;
    const int32_t value = random.real() < atThePeak ? none : liveAcross(peak);
    if (value == none) {
      slot = timeline.runAt(peak) == none ? none : peak; // the op at the peak itself
    } else {
      int32_t from = timeline.servedFrom(value, peak);
      if (from == none)
        return false;
      slot = later ? from : timeline.liveUntil(value, from);
      if (later && !graph.values[value].producer)
        return false;
    }
    if (slot == none || slot >= timeline.slotCount() || timeline.runAt(slot) == none)
      return false;
    group.clear();
    return (later ? gatherReaders(slot, peak) : gatherSuppliers(slot, peak)) &&
           moveGroup(peak, later);
  }

  const Graph &graph;
  const SearchOptions &options;
  EditedSchedule schedule;
  Timeline &timeline; ///< the schedule's
  Random random;
  RerunPlan plan;
  double energy = 0, threshold = 0, price = 0, temperature = 0;
  static constexpr size_t mostInGroup = 5;
  std::vector<int32_t> group; ///< slots of runs that move together
  int crowded = 0;
};

} // namespace

SearchResult improve(const Graph &graph, const Sequence &start, const SearchOptions &options) {
  return Search(graph, start, options).run();
}

} // namespace stow::schedule
