#include "passes/solvers/schedule/search/OrderSearch.h"

#include "passes/solvers/schedule/search/LocalSearch.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

namespace stow::schedule {
namespace {

/// Predecessors that a first run needs: producers of inputs, and for an op that destroys a value
/// all other readers of that value.
std::vector<std::vector<int32_t>> successors(const Graph &graph, std::vector<int32_t> &missing) {
  std::vector<std::vector<int32_t>> next(graph.ops.size());
  missing.assign(graph.ops.size(), 0);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    std::vector<int32_t> before;
    for (int32_t value : graph.ops[i].inputs)
      if (graph.values[value].producer)
        before.push_back(*graph.values[value].producer);
    for (const Credit &credit : graph.ops[i].credits)
      if (credit.required)
        for (int32_t reader : graph.values[credit.input].readers)
          if (reader != static_cast<int32_t>(i))
            before.push_back(reader);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    missing[i] = static_cast<int32_t>(before.size());
    for (int32_t op : before)
      next[op].push_back(static_cast<int32_t>(i));
  }
  return next;
}

/// Ops whose predecessors have run, each with what it would do to memory if it were next. A key is
/// computed when an op comes in and when one of the values that it reads loses a reader; the least
/// is looked for among keys that lie side by side.
class ReadyOps {
public:
  ReadyOps(const Graph &graph, double lookahead)
      : graph(graph), lookahead(lookahead), remaining(graph.values.size()),
        placeOf(graph.ops.size(), -1) {
    for (size_t v = 0; v < graph.values.size(); ++v)
      remaining[v] = static_cast<int32_t>(graph.values[v].readers.size()) + graph.values[v].keep;
  }

  bool isEmpty() const { return keys.empty(); }

  void add(int32_t op) {
    placeOf[op] = static_cast<int32_t>(keys.size());
    keys.push_back(keyOf(op));
  }

  int32_t takeBest() {
    const auto best = std::min_element(keys.begin(), keys.end());
    const int32_t op = std::get<2>(*best);
    *best = keys.back();
    placeOf[std::get<2>(*best)] = static_cast<int32_t>(best - keys.begin());
    keys.pop_back();
    placeOf[op] = -1;
    for (int32_t value : graph.ops[op].inputs)
      --remaining[value];
    for (int32_t value : graph.ops[op].inputs)
      for (int32_t reader : graph.values[value].readers)
        if (placeOf[reader] >= 0)
          keys[placeOf[reader]] = keyOf(reader);
    return op;
  }

private:
  using Key = std::tuple<double, Bytes, int32_t>;

  Key keyOf(int32_t index) const {
    const GraphOp &op = graph.ops[index];
    Bytes outputs = 0, freed = 0;
    double soon = 0;
    for (int32_t value : op.outputs)
      outputs += graph.values[value].sizeBytes;
    for (int32_t value : op.inputs) {
      if (remaining[value] == 1)
        freed += graph.values[value].sizeBytes;
      else
        soon += static_cast<double>(graph.values[value].sizeBytes) / remaining[value];
    }
    return {static_cast<double>(outputs - freed) - lookahead * soon, outputs + op.workspaceBytes,
            index};
  }

  const Graph &graph;
  const double lookahead;
  std::vector<int32_t> remaining; ///< readers of every value that have not run
  std::vector<int32_t> placeOf;   ///< of a ready op among the keys; -1 for all others
  std::vector<Key> keys;
};

} // namespace

Sequence greedyOrder(const Graph &graph, double lookahead) {
  std::vector<int32_t> missing;
  std::vector<std::vector<int32_t>> next = successors(graph, missing);
  ReadyOps ready(graph, lookahead);
  for (size_t op = 0; op < graph.ops.size(); ++op)
    if (missing[op] == 0)
      ready.add(static_cast<int32_t>(op));
  Sequence order;
  while (!ready.isEmpty()) {
    const int32_t op = ready.takeBest();
    order.push_back(op);
    for (int32_t reader : next[op])
      if (--missing[reader] == 0)
        ready.add(reader);
  }
  return order;
}

namespace {

/// One copy of a value as a window sees it.
struct WindowValue {
  Bytes sizeBytes = 0;
  uint32_t readers = 0;   ///< runs of the window that read it
  bool liveAfter = false; ///< read behind the window, or kept
};

/// A window prepared for dynamic programming over sets of runs.
struct Window {
  struct Run {
    uint32_t before = 0;                             ///< runs of the window that must come first
    std::vector<int32_t> reads, writes;              ///< copies
    std::vector<std::tuple<int32_t, Bytes>> credits; ///< (copy that must die, bytes)
    Bytes workspaceBytes = 0;
  };
  std::vector<Run> runs;
  std::vector<WindowValue> values;
};

/// Steps from what is live behind a run to what is live in front of it.
void stepBack(const Graph &graph, int32_t op, std::vector<char> &isLive) {
  for (int32_t value : graph.ops[op].outputs)
    isLive[value] = 0;
  for (int32_t value : graph.ops[op].inputs)
    isLive[value] = 1;
}

std::vector<char> liveAtEnd(const Graph &graph) {
  std::vector<char> isLive;
  for (const GraphValue &value : graph.values)
    isLive.push_back(value.keep);
  return isLive;
}

/// What is known of values and ops while a window is walked; -1 for all of them in between, so that a
/// window costs what is in it.
struct WindowTables {
  explicit WindowTables(const Graph &graph)
      : copyOf(graph.values.size(), -1), lastRun(graph.ops.size(), -1) {}
  std::vector<int32_t> copyOf;  ///< current copy of a value
  std::vector<int32_t> lastRun; ///< of an op, in the window
};

/// `isLive` says of every value whether it is read from `end` on before it is written again.
Window prepare(const Graph &graph, const Sequence &sequence, size_t begin, size_t end,
               const std::vector<char> &isLive, WindowTables &tables) {
  Window window;
  window.runs.resize(end - begin);
  auto &[copyOf, lastRun] = tables;
  std::vector<int32_t> writerOf; // per copy: run of the window, or -1
  auto fresh = [&](int32_t value, int32_t writer) {
    copyOf[value] = static_cast<int32_t>(window.values.size());
    window.values.push_back({graph.values[value].sizeBytes, 0, false});
    writerOf.push_back(writer);
    return copyOf[value];
  };
  for (size_t i = begin; i < end; ++i) {
    const GraphOp &op = graph.ops[sequence[i]];
    const int32_t index = static_cast<int32_t>(i - begin);
    Window::Run &run = window.runs[index];
    run.workspaceBytes = op.workspaceBytes;
    for (int32_t value : op.inputs) {
      int32_t copy = copyOf[value] >= 0 ? copyOf[value] : fresh(value, -1);
      window.values[copy].readers |= uint32_t(1) << index;
      run.reads.push_back(copy);
      if (writerOf[copy] >= 0)
        run.before |= uint32_t(1) << writerOf[copy];
    }
    for (const Credit &credit : op.credits) {
      run.credits.push_back({copyOf[credit.input], credit.bytes});
      if (credit.required) // every other reader of this copy comes first
        run.before |= window.values[copyOf[credit.input]].readers & ~(uint32_t(1) << index);
    }
    for (int32_t value : op.outputs) {
      if (int32_t old = copyOf[value]; old >= 0) // readers of the old copy stay in front
        run.before |=
            window.values[old].readers | (writerOf[old] >= 0 ? uint32_t(1) << writerOf[old] : 0);
      run.writes.push_back(fresh(value, index));
    }
    if (lastRun[sequence[i]] >= 0)
      run.before |= uint32_t(1) << lastRun[sequence[i]];
    lastRun[sequence[i]] = index;
  }
  for (size_t i = begin; i < end; ++i) {
    const GraphOp &op = graph.ops[sequence[i]];
    lastRun[sequence[i]] = -1;
    for (const std::vector<int32_t> *values : {&op.inputs, &op.outputs})
      for (int32_t value : *values)
        if (const int32_t copy = std::exchange(copyOf[value], -1); copy >= 0)
          window.values[copy].liveAfter = isLive[value];
  }
  return window;
}

/// A run of a window, ready for sums over sets of runs.
struct Step {
  uint32_t before = 0; ///< runs that must come first
  Bytes fresh = 0;     ///< bytes that it adds while it runs
  Bytes kept = 0;      ///< bytes of what it writes that is read later
  struct Release {     ///< bytes that vanish once all of these runs are done
    uint32_t readers;
    Bytes bytes;
  };
  std::vector<Release> releases, credits;
};

std::vector<Step> stepsOf(const Window &window) {
  std::vector<Step> steps;
  for (const Window::Run &run : window.runs) {
    Step &step = steps.emplace_back();
    step.before = run.before;
    step.fresh = run.workspaceBytes;
    for (int32_t copy : run.writes) {
      const WindowValue &value = window.values[copy];
      step.fresh += value.sizeBytes;
      if (value.readers || value.liveAfter)
        step.kept += value.sizeBytes;
    }
    for (int32_t copy : run.reads)
      if (const WindowValue &value = window.values[copy]; !value.liveAfter && value.sizeBytes > 0)
        step.releases.push_back({value.readers, value.sizeBytes});
    for (auto [copy, bytes] : run.credits)
      if (const WindowValue &value = window.values[copy]; !value.liveAfter)
        step.credits.push_back({value.readers, bytes});
  }
  return steps;
}

bool improvePrepared(const Window &window, Sequence &sequence, size_t begin) {
  const std::vector<Step> steps = stepsOf(window);
  const size_t count = steps.size();
  const uint32_t full = (uint32_t(1) << count) - 1;
  constexpr Bytes unreached = std::numeric_limits<Bytes>::max();
  // Bytes are relative to what is live in front of the window.
  std::vector<Bytes> peak(full + 1, unreached), live(full + 1, 0);
  std::vector<int8_t> last(full + 1, -1);
  auto stepBytes = [&](uint32_t done, uint32_t r, Bytes &after) {
    const Step &step = steps[r];
    const uint32_t missing = ~(done | uint32_t(1) << r);
    after = live[done] + step.kept;
    for (const Step::Release &release : step.releases)
      after -= release.readers & missing ? 0 : release.bytes;
    Bytes credit = 0;
    for (const Step::Release &release : step.credits)
      credit = std::max(credit, release.readers & missing ? 0 : release.bytes);
    return live[done] + step.fresh - credit;
  };
  // The order at hand, measured the same way.
  Bytes current = std::numeric_limits<Bytes>::min();
  for (uint32_t r = 0, done = 0; r < count; ++r) {
    Bytes after = 0;
    current = std::max(current, stepBytes(done, r, after));
    done |= uint32_t(1) << r;
    live[done] = after;
  }
  peak[0] = std::numeric_limits<Bytes>::min();
  for (uint32_t done = 0; done < full; ++done) {
    if (peak[done] >= current) // unreached, or no better than the order at hand
      continue;
    for (uint32_t rest = full & ~done; rest; rest &= rest - 1) {
      const auto r = static_cast<uint32_t>(std::countr_zero(rest));
      if (steps[r].before & ~done)
        continue;
      Bytes after = 0;
      const Bytes reached = std::max(peak[done], stepBytes(done, r, after));
      const uint32_t now = done | uint32_t(1) << r;
      if (reached < peak[now]) {
        peak[now] = reached;
        live[now] = after;
        last[now] = static_cast<int8_t>(r);
      }
    }
  }
  if (peak[full] >= current)
    return false;
  Sequence order(count);
  for (uint32_t rest = full; rest; rest &= ~(uint32_t(1) << last[rest]))
    order[std::popcount(rest) - 1] = sequence[begin + last[rest]];
  std::copy(order.begin(), order.end(), sequence.begin() + static_cast<std::ptrdiff_t>(begin));
  return true;
}

} // namespace

bool improveWindow(const Graph &graph, Sequence &sequence, size_t begin, size_t end) {
  if (end - begin < 2 || end - begin > 20)
    return false;
  std::vector<char> isLive = liveAtEnd(graph);
  for (size_t i = sequence.size(); i-- > end;)
    stepBack(graph, sequence[i], isLive);
  WindowTables tables(graph);
  return improvePrepared(prepare(graph, sequence, begin, end, isLive, tables), sequence, begin);
}

void improveAllWindows(const Graph &graph, Sequence &sequence, size_t windowRuns) {
  // From the last window to the first, so that one walk tells what is live behind each.
  std::vector<char> isLive = liveAtEnd(graph);
  WindowTables tables(graph);
  const size_t stride = windowRuns / 2;
  size_t end = sequence.size();
  while (end >= 2) {
    const size_t begin = end - std::min(end, windowRuns);
    improvePrepared(prepare(graph, sequence, begin, end, isLive, tables), sequence, begin);
    const size_t next = end - std::min(end, stride);
    for (; end > next; --end)
      stepBack(graph, sequence[end - 1], isLive);
  }
}

Sequence searchOrder(const Graph &graph, const Sequence &start, const OrderOptions &options) {
  struct Ranked {
    Bytes peak;
    Sequence order;
  };
  std::vector<Ranked> starts;
  const bool isOrder = start.size() == graph.ops.size();
  auto offer = [&](Sequence order) {
    if (isOrder && order.size() != graph.ops.size())
      return;
    Measure measured = measure(graph, order);
    if (measured.legal)
      starts.push_back({measured.peakBytes, std::move(order)});
  };
  offer(start);
  if (isOrder)
    for (double lookahead : {0.0, 0.5, 1.0})
      offer(greedyOrder(graph, lookahead));
  std::sort(starts.begin(), starts.end(), [](const Ranked &a, const Ranked &b) {
    return std::tie(a.peak, a.order) < std::tie(b.peak, b.order);
  });
  Ranked best = starts.front();
  // Three searches of rising patience, the last from the best of all.
  const size_t tries = 3;
  for (size_t i = 0; i < tries && best.peak > options.targetBytes; ++i) {
    SearchOptions search;
    search.budgetBytes = options.targetBytes;
    search.reruns = false;
    search.pricePerByte = 1;
    search.moves = options.moves / static_cast<int64_t>(tries);
    search.seed = i + 1;
    constexpr double warm = 0.6, cool = 0.1;
    search.warmth = i + 1 == tries ? cool : warm;
    search.cooling = 1e-3;
    search.cancelled = options.cancelled;
    const Sequence &from =
        i + 1 == tries ? best.order : starts[std::min(i, starts.size() - 1)].order;
    SearchResult found = improve(graph, from, search);
    if (found.measured.peakBytes < best.peak)
      best = {found.measured.peakBytes, std::move(found.sequence)};
    // Exact windows at the peak, in three alignments.
    for (int round = 0; round < 50 && best.peak > options.targetBytes; ++round) {
      const size_t at = measure(graph, best.order).peakPosition;
      bool improved = false;
      const size_t width =
          std::min<size_t>(static_cast<size_t>(options.windowRuns), best.order.size());
      for (size_t offset : {width / 2, width / 4, 3 * width / 4}) {
        size_t begin = std::min(at - std::min(at, offset), best.order.size() - width);
        Sequence candidate = best.order;
        if (!improveWindow(graph, candidate, begin, begin + width))
          continue;
        Measure measured = measure(graph, candidate);
        if (measured.legal && measured.peakBytes < best.peak) {
          best = {measured.peakBytes, std::move(candidate)};
          improved = true;
          break;
        }
      }
      if (!improved)
        break;
    }
  }
  return best.order;
}

} // namespace stow::schedule
