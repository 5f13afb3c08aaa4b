#include "passes/solvers/schedule/search/Segments.h"

#include "passes/solvers/schedule/search/CutSchedule.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace stow::schedule {

namespace {

/// Marks the values that an op in front of `peak` reads in another segment than the one in which
/// they are written.
std::vector<char> crossings(const Graph &graph, const Sequence &base, size_t peak,
                            int segmentCount) {
  std::vector<int64_t> segmentOf(graph.values.size(), 0);
  std::vector<char> crosses(graph.values.size(), 0);
  for (size_t i = 0; i < peak; ++i) {
    const int64_t segment = static_cast<int64_t>(i) * segmentCount / static_cast<int64_t>(peak);
    for (int32_t value : graph.ops[base[i]].outputs)
      segmentOf[value] = segment;
    for (int32_t value : graph.ops[base[i]].inputs)
      crosses[value] |= segmentOf[value] != segment;
  }
  return crosses;
}

} // namespace

std::vector<char> segmentBars(const Graph &graph, const Sequence &base, int segmentCount) {
  const std::vector<char> crosses =
      crossings(graph, base, measure(graph, base).peakPosition, segmentCount);
  std::vector<char> barred(graph.ops.size(), 0);
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (crosses[v] && graph.values[v].producer)
      barred[*graph.values[v].producer] = 1;
  return barred;
}

Sequence segmentSchedule(const Graph &graph, const Sequence &base, int segmentCount) {
  const size_t peak = measure(graph, base).peakPosition;
  SequenceCut cut(graph, base, peak);
  std::vector<char> kept = crossings(graph, base, peak, segmentCount);
  for (size_t v = 0; v < graph.values.size(); ++v)
    kept[v] |= !graph.values[v].producer.has_value();

  SequenceCut::Plan plan;
  std::set<int32_t> reruns;
  std::vector<int32_t> pending;
  auto runAgain = [&](int32_t op) {
    if (cut.mayRerun(op) && reruns.insert(op).second)
      pending.push_back(op);
  };
  auto rerun = [&](int32_t value) {
    if (!kept[value] && graph.values[value].producer)
      runAgain(*graph.values[value].producer);
  };
  for (int32_t value : cut.liveValues())
    rerun(value);
  while (!pending.empty()) {
    int32_t op = pending.back();
    pending.pop_back();
    for (int32_t value : graph.ops[op].inputs)
      rerun(value);
    for (int32_t value : graph.ops[op].outputs)
      for (int32_t view : graph.values[value].views)
        if (cut.isWrittenBefore(view))
          runAgain(*graph.values[view].producer);
  }
  plan.reruns.assign(reruns.begin(), reruns.end());
  return cut.apply(plan);
}

Sequence sqrtSchedule(const Graph &graph) {
  const Sequence base = graph.inputOrder();
  Sequence best = base;
  Measure bestMeasure = measure(graph, base);
  if (base.empty())
    return best;
  const double root = std::sqrt(static_cast<double>(bestMeasure.peakPosition + 1));
  for (double factor : {0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0}) {
    int count = static_cast<int>(std::lround(root * factor));
    if (count < 1)
      continue;
    Sequence candidate = segmentSchedule(graph, base, count);
    Measure now = measure(graph, candidate);
    if (now.legal &&
        std::tie(now.peakBytes, now.time) < std::tie(bestMeasure.peakBytes, bestMeasure.time)) {
      best = std::move(candidate);
      bestMeasure = now;
    }
  }
  return best;
}

} // namespace stow::schedule
