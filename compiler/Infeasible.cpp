#include "compiler/Infeasible.h"

#include "passes/memory/DescribePlan.h"
#include "runtime/format/PlanReport.h"

#include <algorithm>
#include <tuple>

namespace stow {
namespace {

constexpr size_t kRows = 20;

/// The buffers that are live at the peak, largest first.
std::string liveSet(const Plan &plan) {
  std::optional<size_t> which = peakGraph(plan);
  if (!which)
    return "";
  const GraphPlan &graph = plan.graphs[*which];
  std::vector<const PlannedBuffer *> live = liveAt(graph, graph.peakStep);
  std::string text = "live at the peak, step " + std::to_string(graph.peakStep) + " of \"" +
                     graph.name + "\" (" + graph.stepNames[graph.peakStep] + "), " +
                     std::to_string(live.size()) + " buffers, " +
                     formatBytesExact(graph.livePeakBytes) + ":\n";
  Bytes rest = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    if (i >= kRows) {
      rest += live[i]->size;
      continue;
    }
    std::string shape;
    for (int64_t extent : live[i]->shape)
      shape += (shape.empty() ? "" : "x") + std::to_string(extent);
    text += "  " + formatBytesExact(live[i]->size) + "  " + std::string(nameOf(live[i]->kind)) +
            "  " + live[i]->name + "  " + shape + " " + std::string(nameOf(live[i]->dtype)) +
            (live[i]->source.empty() ? "" : "  from " + live[i]->source) + "\n";
  }
  if (live.size() > kRows)
    text += "  " + formatBytesExact(rest) + "  in " + std::to_string(live.size() - kRows) +
            " more buffers\n";
  return text;
}

struct Remedy {
  Bytes gain = 0;
  std::string text;
  bool changesResults = false;
};

/// What would lower the arena, by what it gains.
std::vector<Remedy> remedies(const Plan &plan, const CompileOptions &options, Bytes budget) {
  std::vector<Remedy> list;
  list.push_back({plan.arenaBytes - budget,
                  "a larger budget: --memory-budget=" + std::to_string(plan.arenaBytes), false});
  Breakdown parts = breakdownAtPeak(plan);
  if (parts.optimizer > 0)
    list.push_back(
        {parts.optimizer,
         "an optimizer without state: --optimizer=sgd:lr=... instead of " + options.optimizer.name,
         true});
  Bytes perBatch = parts.activations + parts.gradients + parts.inputs + parts.workspace;
  std::optional<int64_t> batch = options.import.batch;
  for (const GraphPlan &graph : plan.graphs)
    for (const PlannedBuffer &buffer : graph.buffers)
      if (!batch && buffer.kind == BufferKind::Input && !buffer.shape.empty())
        batch = buffer.shape.front();
  if (batch && *batch > 1)
    list.push_back({perBatch / 2,
                    "half the batch: --batch=" + std::to_string(*batch / 2) +
                        " (stowage max-batch finds the largest that fits)",
                    true});
  Bytes frozen = 0;
  std::string largest;
  if (!plan.graphs.empty())
    for (const PlannedBuffer &buffer : plan.graphs.front().buffers)
      if (buffer.kind == BufferKind::Parameter && buffer.size > frozen) {
        frozen = buffer.size;
        largest = buffer.name;
      }
  if (parts.optimizer > 0 && parts.parameters > 0 && frozen > 0)
    list.push_back(
        {static_cast<Bytes>(static_cast<double>(frozen) * static_cast<double>(parts.optimizer) /
                            static_cast<double>(parts.parameters)),
         "not training the largest parameter: --freeze='" + largest + "'", true});
  std::sort(list.begin(), list.end(), [](const Remedy &a, const Remedy &b) {
    return std::tie(b.gain, a.text) < std::tie(a.gain, b.text);
  });
  return list;
}

} // namespace

Bytes budgetBytes(const ByteBudget &budget, Bytes keepAllBytes) {
  return budget.bytes ? *budget.bytes : schedule::percentOf(keepAllBytes, *budget.peakPercent);
}

Error infeasible(BudgetPlanner &planner, const CompileOptions &options, Bytes budget) {
  StepChoice smallest = planner.smallest();
  Plan plan = describePlan(*smallest.placed);
  std::string text = "STOW1001: the step does not fit the memory budget\n";
  text += "  budget               " + formatBytesExact(budget) + "\n";
  text += "  smallest achievable  " + formatBytesExact(smallest.arenaBytes) + "\n";
  text += "  proven lower bound   " + formatBytesExact(planner.lowerBound()) + "\n";
  text += "  without recompute    " + formatBytesExact(planner.keepAll().arenaBytes) + "\n";
  text += "  of which state       " + formatBytesExact(plan.persistentBytes) + "\n";
  text += liveSet(plan);
  text += "remedies, by what they gain:\n";
  int number = 0;
  for (const Remedy &remedy : remedies(plan, options, budget))
    text += "  " + std::to_string(++number) + ". " + remedy.text + "\n     gains " +
            formatBytesExact(remedy.gain) + "; changes results? " +
            (remedy.changesResults ? "yes" : "no") + "\n";
  text.pop_back();
  return Error::infeasible(text);
}

} // namespace stow
