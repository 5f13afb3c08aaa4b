#include "runtime/format/Plan.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <array>

namespace stow {

namespace {

constexpr std::array<std::pair<BufferKind, std::string_view>, 8> kindNames = {{
    {BufferKind::Parameter, "parameter"},
    {BufferKind::Statistic, "statistic"},
    {BufferKind::Optimizer, "optimizer"},
    {BufferKind::Input, "input"},
    {BufferKind::Output, "output"},
    {BufferKind::Activation, "activation"},
    {BufferKind::Gradient, "gradient"},
    {BufferKind::Workspace, "workspace"},
}};

constexpr std::array<std::pair<AliasKind, std::string_view>, 3> aliasKindNames = {{
    {AliasKind::InPlace, "in_place"},
    {AliasKind::View, "view"},
    {AliasKind::Part, "part"},
}};

template <typename Names>
auto parseName(const Names &names, const char *what, std::string_view of) {
  std::string known;
  for (const auto &[value, text] : names) {
    if (text == of)
      return value;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw Error::badInput("unknown " + std::string(what) + " '" + std::string(of) +
                        "'; expected one of " + known);
}

Bytes &partOf(Breakdown &breakdown, BufferKind kind) {
  switch (kind) {
  case BufferKind::Parameter:
    return breakdown.parameters;
  case BufferKind::Statistic:
    return breakdown.statistics;
  case BufferKind::Optimizer:
    return breakdown.optimizer;
  case BufferKind::Input:
    return breakdown.inputs;
  case BufferKind::Output:
    return breakdown.outputs;
  case BufferKind::Activation:
    return breakdown.activations;
  case BufferKind::Gradient:
    return breakdown.gradients;
  case BufferKind::Workspace:
    break;
  }
  return breakdown.workspace;
}

} // namespace

std::string_view nameOf(BufferKind kind) {
  for (const auto &[value, name] : kindNames)
    if (value == kind)
      return name;
  throw Error::internal("buffer kind " + std::to_string(static_cast<int>(kind)) + " has no name");
}

BufferKind parseBufferKind(std::string_view name) {
  return parseName(kindNames, "buffer kind", name);
}

std::string_view nameOf(AliasKind kind) {
  for (const auto &[value, name] : aliasKindNames)
    if (value == kind)
      return name;
  throw Error::internal("alias kind " + std::to_string(static_cast<int>(kind)) + " has no name");
}

AliasKind parseAliasKind(std::string_view name) {
  return parseName(aliasKindNames, "alias kind", name);
}

std::optional<size_t> peakGraph(const Plan &plan) {
  if (plan.graphs.empty())
    return std::nullopt;
  auto peak = std::ranges::max_element(plan.graphs, {}, &GraphPlan::livePeakBytes);
  return peak - plan.graphs.begin();
}

Breakdown breakdownAtPeak(const Plan &plan) {
  Breakdown breakdown;
  Bytes live = 0;
  if (std::optional<size_t> index = peakGraph(plan)) {
    const GraphPlan &graph = plan.graphs[*index];
    for (const PlannedBuffer *buffer : liveAt(graph, graph.peakStep)) {
      partOf(breakdown, buffer->kind) += buffer->logicalSize;
      breakdown.layoutPadding += buffer->size - buffer->logicalSize;
      live += buffer->size;
    }
  }
  breakdown.padding = plan.arenaBytes - live;
  return breakdown;
}

std::vector<const PlannedBuffer *> liveAt(const GraphPlan &graph, int64_t step) {
  std::vector<const PlannedBuffer *> live;
  for (const PlannedBuffer &buffer : graph.buffers)
    if (buffer.begin <= step && step < buffer.end)
      live.push_back(&buffer);
  std::ranges::sort(live, [](const PlannedBuffer *a, const PlannedBuffer *b) {
    if (a->size != b->size)
      return a->size > b->size;
    if (a->name != b->name)
      return a->name < b->name;
    return a < b; // same vector: the order in the plan
  });
  return live;
}

} // namespace stow
