#include "runtime/format/Plan.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <set>

namespace stow {

namespace {

template <typename Word, size_t count>
using Words = std::array<std::pair<Word, std::string_view>, count>;

constexpr Words<BufferKind, kBufferKinds> kindNames = {{
    {BufferKind::Parameter, "parameter"},
    {BufferKind::Statistic, "statistic"},
    {BufferKind::Optimizer, "optimizer"},
    {BufferKind::Input, "input"},
    {BufferKind::Output, "output"},
    {BufferKind::Activation, "activation"},
    {BufferKind::Gradient, "gradient"},
    {BufferKind::Workspace, "workspace"},
    {BufferKind::Accumulator, "accumulator"},
    {BufferKind::Frozen, "frozen"},
    {BufferKind::FetchedWeight, "fetched_weight"},
    {BufferKind::FetchedOptimizer, "fetched_optimizer"},
    {BufferKind::DataSet, "data_set"},
}};

constexpr Words<AliasKind, 3> aliasKindNames = {{
    {AliasKind::InPlace, "in_place"},
    {AliasKind::View, "view"},
    {AliasKind::Part, "part"},
}};

constexpr Words<StepPhase, 3> phaseNames = {{
    {StepPhase::Forward, "forward"},
    {StepPhase::Backward, "backward"},
    {StepPhase::Update, "update"},
}};

constexpr Words<GraphRole, 5> roleNames = {{
    {GraphRole::Train, "train"},
    {GraphRole::Eval, "eval"},
    {GraphRole::Accumulate, "accumulate"},
    {GraphRole::Commit, "commit"},
    {GraphRole::Measure, "measure"},
}};

template <typename Word, size_t count>
std::string_view nameIn(const Words<Word, count> &words, Word word, const char *what) {
  for (const auto &[value, name] : words)
    if (value == word)
      return name;
  throw Error::internal(concat(what, " ", static_cast<int>(word), " has no name"));
}

template <typename Word, size_t count>
Word parseIn(const Words<Word, count> &words, std::string_view name, const char *what) {
  for (const auto &[value, text] : words)
    if (text == name)
      return value;
  throw Error::badInput(concat("unknown ", what, " '", name, "'; expected one of ",
                               joined(words | std::views::values, ", ")));
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
  case BufferKind::Accumulator:
    return breakdown.accumulators;
  case BufferKind::Frozen:
    return breakdown.frozen;
  case BufferKind::FetchedWeight:
    return breakdown.fetchedWeights;
  case BufferKind::FetchedOptimizer:
    return breakdown.fetchedOptimizer;
  case BufferKind::DataSet:
    return breakdown.dataSet;
  case BufferKind::Workspace:
    break;
  }
  return breakdown.workspace;
}

} // namespace

std::string_view nameOf(BufferKind kind) { return nameIn(kindNames, kind, "buffer kind"); }

BufferKind parseBufferKind(std::string_view name) {
  return parseIn(kindNames, name, "buffer kind");
}

std::string_view nameOf(AliasKind kind) { return nameIn(aliasKindNames, kind, "alias kind"); }

AliasKind parseAliasKind(std::string_view name) {
  return parseIn(aliasKindNames, name, "alias kind");
}

std::string_view nameOf(StepPhase phase) { return nameIn(phaseNames, phase, "phase"); }

StepPhase parseStepPhase(std::string_view name) { return parseIn(phaseNames, name, "phase"); }

std::string_view nameOf(GraphRole role) { return nameIn(roleNames, role, "graph role"); }

GraphRole parseGraphRole(std::string_view name) { return parseIn(roleNames, name, "graph role"); }

std::string graphName(GraphRole role, std::string_view shape) {
  return shape.empty() ? std::string(nameOf(role)) : concat(nameOf(role), "@", shape);
}

const GraphPlan *findGraph(const Plan &plan, GraphRole role, std::string_view shape) {
  auto graph = std::ranges::find_if(
      plan.graphs, [&](const GraphPlan &one) { return one.role == role && one.shape == shape; });
  return graph == plan.graphs.end() ? nullptr : &*graph;
}

const GraphPlan *findStepGraph(const Plan &plan) {
  const GraphPlan *train = findGraph(plan, GraphRole::Train);
  return train ? train : findGraph(plan, GraphRole::Commit);
}

bool isState(BufferKind kind) {
  return kind == BufferKind::Parameter || kind == BufferKind::Frozen ||
         kind == BufferKind::Statistic || kind == BufferKind::Optimizer ||
         kind == BufferKind::Accumulator || kind == BufferKind::DataSet;
}

std::vector<const PlannedBuffer *> stateOutside(const Plan &plan, const GraphPlan &graph) {
  auto placeOf = [](const PlannedBuffer &buffer) { return std::pair(buffer.offset, buffer.size); };
  std::set<std::pair<Bytes, Bytes>> known;
  for (const PlannedBuffer &buffer : graph.buffers)
    if (isState(buffer.kind))
      known.insert(placeOf(buffer));
  std::vector<const PlannedBuffer *> outside;
  for (const GraphPlan &other : plan.graphs)
    for (const PlannedBuffer &buffer : other.buffers)
      if (isState(buffer.kind) && buffer.size > 0 && known.insert(placeOf(buffer)).second)
        outside.push_back(&buffer);
  return outside;
}

Bytes fullestBytes(const Plan &plan, const GraphPlan &graph) {
  Bytes bytes = graph.livePeakBytes;
  for (const PlannedBuffer *buffer : stateOutside(plan, graph))
    bytes += buffer->size;
  return bytes;
}

std::optional<size_t> peakGraph(const Plan &plan) {
  if (plan.graphs.empty())
    return std::nullopt;
  auto peak = std::ranges::max_element(
      plan.graphs, {}, [&](const GraphPlan &graph) { return fullestBytes(plan, graph); });
  return peak - plan.graphs.begin();
}

Breakdown breakdownAtPeak(const Plan &plan) {
  Breakdown breakdown;
  Bytes live = 0;
  if (std::optional<size_t> index = peakGraph(plan)) {
    for (const PlannedBuffer *buffer : liveAtPeak(plan, plan.graphs[*index])) {
      partOf(breakdown, buffer->kind) += buffer->logicalSize;
      breakdown.layoutPadding += buffer->size - buffer->logicalSize;
      live += buffer->size;
    }
  }
  breakdown.padding = plan.arenaBytes - live;
  return breakdown;
}

void sortBySize(std::vector<const PlannedBuffer *> &buffers) {
  std::ranges::stable_sort(buffers, [](const PlannedBuffer *a, const PlannedBuffer *b) {
    return a->size != b->size ? a->size > b->size : a->name < b->name;
  });
}

std::vector<const PlannedBuffer *> liveAt(const GraphPlan &graph, int64_t step) {
  std::vector<const PlannedBuffer *> live;
  for (const PlannedBuffer &buffer : graph.buffers)
    if (buffer.begin <= step && step < buffer.end && buffer.size > 0)
      live.push_back(&buffer);
  sortBySize(live);
  return live;
}

std::vector<const PlannedBuffer *> liveAtPeak(const Plan &plan, const GraphPlan &graph) {
  std::vector<const PlannedBuffer *> live = liveAt(graph, graph.peakStep);
  std::ranges::copy(stateOutside(plan, graph), std::back_inserter(live));
  sortBySize(live);
  return live;
}

} // namespace stow
