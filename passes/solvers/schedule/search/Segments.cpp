#include "passes/solvers/schedule/search/Segments.h"

#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/Effort.h"
#include "passes/solvers/schedule/search/MinCutRecompute.h"
#include "passes/solvers/schedule/search/OrderSearch.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace stow::schedule {

namespace {

constexpr size_t mostSegments = 64;

/// Borders of segments, ascending: each lies in front of the run at that position.
using Borders = std::vector<size_t>;

/// Marks the values that a run in front of `end` reads in another segment than the one in which
/// they are written.
std::vector<char> crossings(const Graph &graph, const Sequence &order, size_t end,
                            const Borders &borders) {
  std::vector<size_t> segmentOf(graph.values.size(), 0);
  std::vector<char> crosses(graph.values.size(), 0);
  size_t segment = 0;
  for (size_t i = 0; i < end; ++i) {
    while (segment < borders.size() && borders[segment] <= i)
      ++segment;
    for (int32_t value : graph.ops[order[i]].outputs)
      segmentOf[value] = segment;
    for (int32_t value : graph.ops[order[i]].inputs)
      crosses[value] |= segmentOf[value] != segment;
  }
  return crosses;
}

/// Borders of `count` segments of about equal numbers of the ops in front of `end`.
Borders equalCounts(size_t end, size_t count) {
  Borders borders;
  for (size_t i = 1; i < count; ++i)
    borders.push_back((i * end + count - 1) / count);
  return borders;
}

/// The last run across which most bytes are saved that can be computed again.
size_t turnOf(const Graph &graph, const Sequence &order) {
  std::vector<size_t> writtenAt(graph.values.size(), 0), lastRead(graph.values.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    for (int32_t value : graph.ops[order[i]].inputs)
      lastRead[value] = i;
    for (int32_t value : graph.ops[order[i]].outputs)
      writtenAt[value] = i;
  }
  std::vector<Bytes> change(order.size() + 1, 0);
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.mayComeAgain(static_cast<int32_t>(v)) && lastRead[v] > writtenAt[v]) {
      change[writtenAt[v] + 1] += graph.values[v].sizeBytes;
      change[lastRead[v]] -= graph.values[v].sizeBytes;
    }
  size_t turn = 0;
  Bytes now = 0, most = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    now += change[i];
    if (now >= most) {
      most = now;
      turn = i;
    }
  }
  return turn;
}

/// Values that cost next to nothing to keep beside what their op reads and writes: the statistics
/// of a normalization, the log-sum-exp of a row.
std::vector<char> smallValues(const Graph &graph) {
  constexpr Bytes share = 256;
  std::vector<char> isSmall(graph.values.size(), 0);
  for (const GraphOp &op : graph.ops) {
    Bytes largest = 0;
    for (const std::vector<int32_t> *values : {&op.inputs, &op.outputs})
      for (int32_t value : *values)
        largest = std::max(largest, graph.values[value].sizeBytes);
    for (int32_t value : op.outputs)
      isSmall[value] =
          graph.values[value].sizeBytes > 0 && graph.values[value].sizeBytes * share <= largest;
  }
  return isSmall;
}

/// The segments of one order in front of one position, the turn.
class Segmentation {
public:
  Segmentation(const Graph &graph, const Sequence &order, size_t turn)
      : graph(graph), order(order), turn(turn), cut(graph, order, turn),
        isSmall(smallValues(graph)) {
    findNarrowPlaces();
  }

  /// The best segments near those of equal shares of the saved bytes, and near those of equal
  /// numbers of ops.
  std::vector<Sequence> find() {
    std::vector<Sequence> found;
    for (auto shares : {&Segmentation::equalBytes, &Segmentation::equalOps}) {
      best = {};
      for (size_t count = 1; count <= std::min(mostSegments, turn); ++count)
        consider((this->*shares)(count));
      if (best.sequence.empty())
        continue;
      moveBorders();
      found.push_back(std::move(best.sequence));
    }
    return found;
  }

private:
  struct Found {
    Borders borders;
    Measure measured;
    Sequence sequence; ///< empty: none
  };

  /// Where a single value crosses that takes any bytes, and what is saved in front of each run.
  void findNarrowPlaces() {
    std::vector<size_t> lastRead(graph.values.size(), 0);
    for (size_t i = 0; i < turn; ++i)
      for (int32_t value : graph.ops[order[i]].inputs)
        lastRead[value] = i;
    std::vector<char> isSaved(graph.values.size(), 0);
    for (int32_t value : cut.liveValues())
      isSaved[value] = 1;
    std::vector<int> change(turn + 1, 0);
    savedBefore.assign(turn + 1, 0);
    int crossing = 0;
    for (size_t i = 0; i < turn; ++i) {
      crossing += change[i];
      if (crossing == 1)
        places.push_back(i);
      savedBefore[i + 1] = savedBefore[i];
      for (int32_t value : graph.ops[order[i]].outputs) {
        savedBefore[i + 1] += isSaved[value] ? graph.values[value].sizeBytes : 0;
        if (graph.values[value].sizeBytes > 0 && lastRead[value] > i) {
          ++change[i + 1];
          --change[lastRead[value] + 1];
        }
      }
    }
  }

  Borders equalOps(size_t count) const { return equalCounts(turn, count); }

  /// Borders at narrow places, wherever the next segment would save more than a share of all.
  Borders equalBytes(size_t count) const {
    const Bytes share = savedBefore[turn] / static_cast<Bytes>(count);
    Borders borders;
    Bytes before = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      const Bytes next = savedBefore[places[std::min(i + 1, places.size() - 1)]];
      if (next - before <= share)
        continue;
      borders.push_back(places[i]);
      before = savedBefore[places[i]];
    }
    return borders;
  }

  /// Adds and takes away borders at narrow places and at the turn, one or two at a time, as long as
  /// that helps.
  void moveBorders() {
    constexpr size_t work = 1'000'000; // a try takes O(ops)
    size_t left = work / graph.ops.size();
    Borders all = places;
    all.push_back(turn);
    for (bool isBetter = true; isBetter;) {
      isBetter = false;
      for (size_t distance = 0; distance < all.size() && !isBetter; ++distance)
        for (size_t i = 0; i + distance < all.size(); ++i) {
          if (left-- == 0)
            return;
          Borders borders = toggled(best.borders, all[i]);
          if (distance > 0)
            borders = toggled(std::move(borders), all[i + distance]);
          isBetter |= consider(std::move(borders));
        }
    }
  }

  static Borders toggled(Borders borders, size_t place) {
    const auto at = std::ranges::lower_bound(borders, place);
    if (at != borders.end() && *at == place)
      borders.erase(at);
    else
      borders.insert(at, place);
    return borders;
  }

  /// True if these borders are the best of this search.
  bool consider(Borders borders) {
    if (!tried.insert(borders).second)
      return false;
    Sequence sequence = apply(borders);
    const Measure now = measure(graph, sequence);
    if (!now.legal ||
        (!best.sequence.empty() && std::tie(best.measured.peakBytes, best.measured.time) <=
                                       std::tie(now.peakBytes, now.time)))
      return false;
    best = {std::move(borders), now, std::move(sequence)};
    return true;
  }

  /// What crosses a border, with all else that its op writes; what is small; what is given; and
  /// views of all that.
  std::vector<char> keptValues(const Borders &borders) const {
    std::vector<char> kept = crossings(graph, order, turn, borders);
    for (const GraphOp &op : graph.ops)
      if (std::ranges::any_of(op.outputs,
                              [&](int32_t value) { return kept[value] && !isSmall[value]; }))
        for (int32_t value : op.outputs)
          kept[value] = 1;
    for (size_t v = 0; v < graph.values.size(); ++v)
      kept[v] |= isSmall[v] || !graph.values[v].producer;
    for (size_t v = 0; v < graph.values.size(); ++v)
      if (const GraphValue &value = graph.values[v]; !value.viewed.empty())
        kept[v] |= std::ranges::all_of(value.viewed, [&](int32_t base) { return kept[base]; });
    return kept;
  }

  /// The order with reruns of what is not kept; the segment behind the last border is kept whole.
  Sequence apply(const Borders &borders) {
    const std::vector<char> kept = keptValues(borders);
    std::vector<char> mayRerun(graph.ops.size(), 0);
    for (size_t i = 0; !borders.empty() && i < borders.back(); ++i)
      mayRerun[order[i]] = cut.mayRerun(order[i]);
    std::set<int32_t> reruns;
    std::vector<int32_t> pending;
    auto rerun = [&](int32_t op) {
      if (mayRerun[op] && reruns.insert(op).second)
        pending.push_back(op);
    };
    auto demand = [&](const std::vector<int32_t> &values) {
      for (int32_t value : values)
        if (!kept[value])
          rerun(*graph.values[value].producer);
    };
    demand(cut.liveValues());
    while (!pending.empty()) {
      const GraphOp &op = graph.ops[pending.back()];
      pending.pop_back();
      demand(op.inputs);
      for (int32_t value : op.outputs)
        for (int32_t view : graph.values[value].views)
          if (cut.isWrittenBefore(view))
            rerun(*graph.values[view].producer);
    }
    SequenceCut::Plan plan;
    plan.reruns.assign(reruns.begin(), reruns.end());
    return cut.apply(plan);
  }

  const Graph &graph;
  const Sequence &order;
  const size_t turn;
  SequenceCut cut;
  const std::vector<char> isSmall;
  Borders places;                 ///< narrow ones
  std::vector<Bytes> savedBefore; ///< bytes written in front of a run and read behind the turn
  Found best;
  std::set<Borders> tried;
};

/// Without the reruns that the sequence's peak can do without.
Sequence lean(const Graph &graph, const Sequence &sequence) {
  return dropNeedlessReruns(graph, sequence, measure(graph, sequence).peakBytes);
}

/// The same runs in a better order, and without those that this order can do without.
Sequence improved(const Graph &graph, const Sequence &segments, double effort) {
  OrderOptions options;
  options.moves = Effort(graph.ops.size(), effort).orderMoves();
  return options.moves > 0 ? lean(graph, searchOrder(graph, segments, options)) : segments;
}

} // namespace

std::vector<char> segmentBars(const Graph &graph, const Sequence &base, int segmentCount) {
  const size_t peak = measure(graph, base).peakPosition;
  const std::vector<char> crosses =
      crossings(graph, base, peak, equalCounts(peak, static_cast<size_t>(segmentCount)));
  std::vector<char> barred(graph.ops.size(), 0);
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (crosses[v] && graph.values[v].producer)
      barred[*graph.values[v].producer] = 1;
  return barred;
}

Solution planSegments(const Problem &problem, double effort) {
  check(problem);
  const Graph graph(problem);
  const Sequence order = graph.inputOrder();
  const Measure start = measure(graph, order);
  Solution best = expand(problem, graph, order, start.peakBytes);
  if (order.empty())
    return best;
  Replay bestReplay = verify(problem, best);
  // Fewer runs leave more room for a better order. Other borders often leave the same.
  std::vector<Sequence> found;
  for (size_t turn : std::set{turnOf(graph, order), start.peakPosition})
    for (const Sequence &segments : Segmentation(graph, order, turn).find())
      if (Sequence fewer = lean(graph, segments); std::ranges::find(found, fewer) == found.end())
        found.push_back(std::move(fewer));
  for (const Sequence &segments : found) {
    const bool hasReruns = segments.size() > order.size();
    const Sequence candidate = hasReruns ? improved(graph, segments, effort) : segments;
    Solution solution = expand(problem, graph, candidate, measure(graph, candidate).peakBytes);
    Replay replay = verify(problem, solution);
    if (!replay.fault &&
        std::tie(replay.peakBytes, replay.time) < std::tie(bestReplay.peakBytes, bestReplay.time)) {
      best = std::move(solution);
      bestReplay = std::move(replay);
    }
  }
  return best;
}

} // namespace stow::schedule
