#include "passes/solvers/schedule/search/Restore.h"

#include <algorithm>

namespace stow::schedule {
namespace {

class Restorer {
public:
  Restorer(const Graph &graph, size_t mostRuns)
      : graph(graph), mostRuns(mostRuns), isThere(graph.values.size(), 0),
        hasRun(graph.ops.size(), 0), isUnderway(graph.ops.size(), 0) {
    for (size_t v = 0; v < graph.values.size(); ++v)
      isThere[v] = !graph.values[v].producer.has_value();
  }

  std::optional<Sequence> run(const Sequence &sequence) {
    for (int32_t op : sequence) {
      if (hasRun[op] && !inputsAreThere(op))
        continue; // run when its result is read, if that is gone
      runOtherReadersFirst(op);
      if (!runWithInputs(op))
        return std::nullopt;
    }
    for (size_t v = 0; v < graph.values.size(); ++v)
      if (graph.values[v].keep && !isThere[v] && !supply(static_cast<int32_t>(v)))
        return std::nullopt;
    return std::move(result);
  }

private:
  bool inputsAreThere(int32_t op) const {
    return std::ranges::all_of(graph.ops[op].inputs, [&](int32_t v) { return isThere[v]; });
  }

  /// Ops that have not run yet and read what `op` is about to overwrite.
  void runOtherReadersFirst(int32_t op) {
    for (const Credit &credit : graph.ops[op].credits)
      if (credit.required)
        for (int32_t reader : graph.values[credit.input].readers)
          if (reader != op && !hasRun[reader] && inputsAreThere(reader))
            runWithInputs(reader);
  }

  bool supply(int32_t value) {
    const std::optional<int32_t> &producer = graph.values[value].producer;
    return producer && graph.ops[*producer].recomputable && hasRun[*producer] &&
           runWithInputs(*producer);
  }

  /// Runs what is missing, then `op`. A run for one input may overwrite another: that is computed
  /// once more.
  bool runWithInputs(int32_t op) {
    if (isUnderway[op])
      return false;
    isUnderway[op] = 1;
    for (int round = 0; round < 3 && !inputsAreThere(op); ++round)
      for (int32_t value : graph.ops[op].inputs)
        if (!isThere[value] && !supply(value))
          return false;
    isUnderway[op] = 0;
    if (!inputsAreThere(op) || result.size() >= mostRuns)
      return false;
    result.push_back(op);
    hasRun[op] = 1;
    for (const Credit &credit : graph.ops[op].credits)
      if (credit.required)
        isThere[credit.input] = 0;
    for (int32_t value : graph.ops[op].outputs) {
      isThere[value] = 1;
      for (int32_t view : graph.values[value].views) // a new copy is without them
        isThere[view] = 0;
    }
    return true;
  }

  const Graph &graph;
  const size_t mostRuns;
  std::vector<char> isThere, hasRun, isUnderway;
  Sequence result;
};

} // namespace

std::optional<Sequence> restoreOverwritten(const Graph &graph, const Sequence &sequence,
                                           size_t mostRuns) {
  if (measure(graph, sequence).legal)
    return sequence;
  return Restorer(graph, mostRuns).run(sequence);
}

} // namespace stow::schedule
