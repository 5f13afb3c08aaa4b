#include "passes/solvers/schedule/bounds/PebbleBound.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace stow::schedule {
namespace {

/// Values in memory together, ascending, and the most bytes on the way from here to the start.
struct Together {
  Bytes worst = 0;
  Bytes bytes = 0;
  std::vector<int32_t> values;
  auto key() const { return std::tie(worst, bytes, values); }
};

class Pebbles {
public:
  explicit Pebbles(const Graph &graph) : graph(graph) {}

  Together start(std::vector<int32_t> values, Bytes atOnce) const {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::erase_if(values, [&](int32_t value) { return graph.values[value].sizeBytes == 0; });
    Bytes bytes = graph.baseBytes;
    for (int32_t value : values)
      bytes += graph.values[value].sizeBytes;
    return {std::max(atOnce, bytes), bytes, std::move(values)};
  }

  /// Ops that may have run last: each wrote one of the values.
  std::vector<int32_t> writers(const Together &from) const {
    std::vector<int32_t> ops;
    for (int32_t value : from.values)
      if (const auto &producer = graph.values[value].producer)
        ops.push_back(*producer);
    std::sort(ops.begin(), ops.end());
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    return ops;
  }

  /// What was together in memory before `op` ran, if it ran last.
  Together before(const Together &from, int32_t index) const {
    const GraphOp &op = graph.ops[index];
    auto isHeld = [&](int32_t value) { return std::ranges::binary_search(from.values, value); };
    Together result{0, from.bytes, {}};
    result.values.reserve(from.values.size() + op.inputs.size());
    for (int32_t value : from.values)
      if (std::ranges::find(op.outputs, value) == op.outputs.end())
        result.values.push_back(value);
      else
        result.bytes -= graph.values[value].sizeBytes;
    const auto kept = static_cast<std::ptrdiff_t>(result.values.size());
    for (int32_t value : op.inputs)
      if (graph.values[value].sizeBytes > 0 && !isHeld(value)) {
        result.values.push_back(value);
        result.bytes += graph.values[value].sizeBytes;
      }
    std::sort(result.values.begin() + kept, result.values.end());
    std::inplace_merge(result.values.begin(), result.values.begin() + kept, result.values.end());
    Bytes during = result.bytes + op.leastWorkspaceBytes - op.uncertainCreditBytes;
    for (int32_t value : op.outputs) {
      Bytes credit = 0; // only what is not held may be written over
      for (const Credit &offer : op.credits)
        if (offer.output == value && !isHeld(offer.input))
          credit = std::max(credit, offer.bytes);
      during += graph.values[value].sizeBytes - credit;
    }
    result.worst = std::max({from.worst, result.bytes, during});
    return result;
  }

private:
  const Graph &graph;
};

} // namespace

Bytes pebbleBound(const Graph &graph, std::vector<int32_t> together, Bytes atOnce,
                  int64_t allowance) {
  const Pebbles pebbles(graph);
  auto later = [](const Together &a, const Together &b) { return a.key() > b.key(); };
  std::vector<Together> open = {pebbles.start(std::move(together), atOnce)}; // a heap
  std::set<std::vector<int32_t>> closed;
  // Few bytes: from here on the way is taken to be free.
  const Bytes few = graph.baseBytes + (open.front().worst - graph.baseBytes) / 2;
  while (true) {
    std::pop_heap(open.begin(), open.end(), later);
    const Together from = std::move(open.back());
    open.pop_back();
    if (!closed.insert(from.values).second)
      continue;
    const std::vector<int32_t> writers = pebbles.writers(from);
    if (writers.empty() || from.bytes <= few || allowance <= 0)
      return from.worst;
    for (int32_t op : writers) {
      open.push_back(pebbles.before(from, op));
      std::push_heap(open.begin(), open.end(), later);
      allowance -= static_cast<int64_t>(from.values.size() + graph.ops[op].inputs.size());
    }
  }
}

} // namespace stow::schedule
