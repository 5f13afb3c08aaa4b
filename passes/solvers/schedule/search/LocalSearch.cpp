#include "passes/solvers/schedule/search/LocalSearch.h"

#include "ir/plan/Random.h"
#include "passes/solvers/schedule/search/RerunPlan.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace stow::schedule {
namespace {

constexpr int32_t none = Timeline::none;

class Search {
public:
  Search(const Graph &graph, const Sequence &start, const SearchOptions &options)
      : graph(graph), options(options), timeline(graph, start), random(options.seed * 77 + 5),
        plan(graph, timeline, random), placeInMany(graph.ops.size(), none) {
    for (size_t op = 0; op < graph.ops.size(); ++op)
      track(static_cast<int32_t>(op));
    best.sequence = start;
    best.measured = measure(graph, start);
    snapshot();
  }

  SearchResult run() {
    if (graph.ops.empty() || best.measured.peakBytes <= 0)
      return best;
    double meanCost = 0, meanSize = 0;
    for (const GraphOp &op : graph.ops)
      meanCost += static_cast<double>(op.cost);
    for (const GraphValue &value : graph.values)
      meanSize += static_cast<double>(value.sizeBytes);
    meanCost /= static_cast<double>(graph.ops.size());
    meanSize /= static_cast<double>(graph.values.size() + 1);
    price =
        options.pricePerByte > 0 ? options.pricePerByte : meanCost / (meanSize + 1) * 0.25 + 1e-12;
    const double first = options.warmth * (options.reruns ? meanCost : price * meanSize) + 1e-9;
    const double last = first * options.cooling;
    setLimit();
    energy = energyNow();
    for (int64_t move = 0; move < options.moves; ++move) {
      if ((move & 63) == 0) {
        double progress = static_cast<double>(move) / static_cast<double>(options.moves);
        temperature = first * std::pow(last / first, progress);
        adjustPrice();
        if (!isForPeak())
          timeline.reweigh(1.2);
        energy = energyNow();
        if (options.cancelled && options.cancelled())
          break;
        if (crowded >= 32)
          respread();
      }
      step();
    }
    settle();
    return best;
  }

private:
  void setLimit() {
    if (!isForPeak())
      timeline.setLimit(options.budgetBytes);
  }

  struct Change {
    enum Kind : int8_t { Added, Removed, Moved } kind;
    int32_t op, slot;
    int32_t target = none; ///< of a move
  };

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

  // -- changes with a log, so that a rejected move can be undone

  void add(int32_t op, int32_t slot) {
    timeline.add(op, slot);
    log.push_back({Change::Added, op, slot});
  }
  void remove(int32_t slot) {
    log.push_back({Change::Removed, timeline.runAt(slot), slot});
    timeline.remove(slot);
  }
  void undo() {
    for (; !log.empty(); log.pop_back()) {
      const Change &change = log.back();
      if (change.kind == Change::Added)
        timeline.remove(change.slot);
      else if (change.kind == Change::Removed)
        timeline.add(change.op, change.slot);
      else
        timeline.move(change.target, change.slot);
    }
  }

  /// Keeps the set of ops that run more than once.
  void track(int32_t op) {
    bool should = timeline.runsOf(op).size() > 1;
    if (should && placeInMany[op] == none) {
      placeInMany[op] = static_cast<int32_t>(many.size());
      many.push_back(op);
    } else if (!should && placeInMany[op] != none) {
      int32_t place = placeInMany[op];
      many[place] = many.back();
      placeInMany[many[place]] = place;
      many.pop_back();
      placeInMany[op] = none;
    }
  }

  void step() {
    log.clear();
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
    if (!moved || log.empty()) {
      undo();
      return;
    }
    double now = energyNow();
    double rise = now - energy;
    bool accept = timeline.violations() == 0 && rise <= threshold;
    if (!accept) {
      undo();
      return;
    }
    energy = now;
    for (const Change &change : log) {
      track(change.op);
      journal.push_back(change);
    }
    remember();
  }

  void remember() {
    Measure now{timeline.time(), timeline.peak(), 0, true};
    auto key = [&](const Measure &m) {
      Bytes over = std::max<Bytes>(0, m.peakBytes - options.budgetBytes);
      return std::tuple(over, m.time, m.peakBytes);
    };
    if (key(now) < key(best.measured)) {
      best.measured = now;
      bestLength = journal.size();
    }
    if (journal.size() > slotsThen.size())
      settle();
  }

  // A copy of the timeline per improvement would cost more than the search itself. Instead,
  // accepted changes are written down, and the best schedule is the last snapshot and a part of the
  // journal.

  void snapshot() {
    slotsThen.resize(timeline.slotCount());
    for (int32_t slot = 0; slot < timeline.slotCount(); ++slot)
      slotsThen[slot] = timeline.runAt(slot);
    journal.clear();
    bestLength = 0;
  }

  void settle() {
    for (size_t i = 0; i < bestLength; ++i) {
      const Change &change = journal[i];
      slotsThen[change.slot] = change.kind == Change::Added ? change.op : none;
      if (change.kind == Change::Moved)
        slotsThen[change.target] = change.op;
    }
    if (bestLength > 0) {
      best.sequence.clear();
      for (int32_t op : slotsThen)
        if (op != none)
          best.sequence.push_back(op);
    }
    snapshot();
  }

  void respread() {
    settle();
    timeline.assign(timeline.sequence());
    setLimit();
    snapshot();
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
      add(plan.runs()[i].op, plan.runs()[i].slot);
    return true;
  }

  bool drop() {
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
    remove(slot);
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
        remove(run);
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
          remove(run);
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
    remove(from);
    for (int32_t input : graph.ops[*producer].inputs)
      dropIfIdle(input, from, depth + 1);
  }

  bool moveRun(int32_t slot, int32_t left, int32_t target, int32_t right) {
    int32_t place = timeline.emptyNear(left, std::clamp(target, left + 1, right - 1), right);
    if (place == none) {
      ++crowded;
      return false;
    }
    log.push_back({Change::Moved, timeline.runAt(slot), slot, place});
    timeline.move(slot, place);
    return true;
  }

  /// Moves a run of an op that runs more than once, past readers and suppliers that other runs can
  /// stand in for.
  bool retime() {
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
    remove(slot);
    add(op, target);
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
    const int32_t peak = aim();
    int32_t slot = none;
    bool later = random.bits() >> 63;
    const int32_t value = random.real() < 0.15 ? none : liveAcross(peak);
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
  Timeline timeline;
  Random random;
  RerunPlan plan;
  SearchResult best;
  double energy = 0, threshold = 0, price = 0, temperature = 0;
  std::vector<Change> log;     ///< of the move at hand
  std::vector<Change> journal; ///< of accepted moves since the snapshot
  std::vector<int32_t> slotsThen;
  size_t bestLength = 0; ///< of the journal at the best schedule; 0: it is older
  std::vector<int32_t> many, placeInMany;
  static constexpr size_t mostInGroup = 5;
  std::vector<int32_t> group; ///< slots of runs that move together
  int crowded = 0;
};

} // namespace

SearchResult improve(const Graph &graph, const Sequence &start, const SearchOptions &options) {
  return Search(graph, start, options).run();
}

} // namespace stow::schedule
