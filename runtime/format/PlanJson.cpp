// The public JSON form of a plan; docs/plan-format.md describes each key.
//
// `buffers` at the top level are those of the first graph, the training step, so that a reader who
// knows nothing of further graphs sees one consistent timeline. Each further graph carries its own
// `buffers`.
#include "runtime/format/PlanJson.h"

namespace stow {

namespace {

Json toJsonValue(const PlannedBuffer &buffer, const std::string &graph) {
  Json json;
  json["name"] = buffer.name;
  json["kind"] = nameOf(buffer.kind);
  json["offset"] = buffer.offset;
  json["size"] = buffer.size;
  json["logical_size"] = buffer.logicalSize;
  json["begin"] = buffer.begin;
  json["end"] = buffer.end;
  json["dtype"] = nameOf(buffer.dtype);
  json["shape"] = buffer.shape;
  json["graph"] = graph;
  json["source"] = buffer.source;
  json["aliases"] = buffer.aliases;
  json["recomputed"] = buffer.recomputed;
  return json;
}

Json buffersOf(const GraphPlan &graph) {
  Json buffers = Json::array();
  for (const PlannedBuffer &buffer : graph.buffers)
    buffers.push_back(toJsonValue(buffer, graph.name));
  return buffers;
}

Json toJsonValue(const Breakdown &breakdown) {
  Json json;
  json["parameters"] = breakdown.parameters;
  json["statistics"] = breakdown.statistics;
  json["optimizer"] = breakdown.optimizer;
  json["gradients"] = breakdown.gradients;
  json["activations"] = breakdown.activations;
  json["workspace"] = breakdown.workspace;
  json["inputs"] = breakdown.inputs;
  json["outputs"] = breakdown.outputs;
  json["layout_padding"] = breakdown.layoutPadding;
  json["padding"] = breakdown.padding;
  return json;
}

Json toJsonValue(const TensorCounts &counts) {
  auto count = [](const TensorCounts::Count &of) {
    Json json;
    json["tensors"] = of.tensors;
    json["elements"] = of.elements;
    return json;
  };
  Json json;
  json["trained"] = count(counts.trained);
  json["frozen"] = count(counts.frozen);
  json["statistics"] = count(counts.statistics);
  json["constant"] = count(counts.constant);
  json["source"] = counts.source;
  return json;
}

TensorCounts countsFrom(const JsonNode &node) {
  auto count = [&](const char *key) {
    const JsonNode of = node.at(key);
    return TensorCounts::Count{of.count("tensors"), of.count("elements")};
  };
  return {count("trained"), count("frozen"), count("statistics"), count("constant"),
          node.text("source")};
}

PlannedBuffer bufferFrom(const JsonNode &node) {
  PlannedBuffer buffer;
  buffer.name = node.text("name");
  buffer.kind = node.parsed("kind", parseBufferKind);
  buffer.offset = node.count("offset");
  buffer.size = node.count("size");
  buffer.logicalSize = node.count("logical_size");
  buffer.begin = node.count("begin");
  buffer.end = node.count("end");
  buffer.dtype = node.parsed("dtype", parseDType);
  buffer.shape = node.counts("shape");
  buffer.source = node.text("source");
  buffer.aliases = node.texts("aliases");
  buffer.recomputed = node.boolean("recomputed");
  if (buffer.logicalSize > buffer.size)
    node.fail("logical_size", "expected at most size (" + std::to_string(buffer.size) +
                                  "), found " + std::to_string(buffer.logicalSize));
  if (buffer.end < buffer.begin)
    node.fail("end", "expected at least begin (" + std::to_string(buffer.begin) + "), found " +
                         std::to_string(buffer.end));
  return buffer;
}

GraphPlan graphFrom(const JsonNode &node) {
  GraphPlan graph;
  graph.name = node.text("name");
  graph.stepCount = node.count("step_count");
  graph.livePeakBytes = node.count("live_peak_bytes");
  graph.peakStep = node.count("peak_step");
  graph.lowerBoundBytes = node.count("lower_bound_bytes");
  graph.stepNames = node.texts("step_names");
  graph.referenceSteps = node.counts("reference_steps");
  if (node.has("buffers"))
    node.forEach("buffers",
                 [&](const JsonNode &buffer) { graph.buffers.push_back(bufferFrom(buffer)); });
  return graph;
}

} // namespace

Json toJsonValue(const Plan &plan) {
  Json json;
  json["model"] = plan.model;
  json["arena_bytes"] = plan.arenaBytes;
  json["live_peak_bytes"] = plan.livePeakBytes;
  json["lower_bound_bytes"] = plan.lowerBoundBytes;
  json["logical_bound_bytes"] = plan.logicalBoundBytes;
  json["status"] = plan.status;
  json["extra_time_fraction"] = plan.extraTimeFraction;
  json["extra_time_bound_fraction"] = plan.extraTimeBound;
  json["step_seconds"] = plan.stepSeconds;
  json["cost_source"] = plan.costSource;
  json["persistent_bytes"] = plan.persistentBytes;
  json["without_recompute_bytes"] = plan.withoutRecomputeBytes;
  json["outside_arena_bytes"] = plan.outsideArenaBytes;
  json["alignment"] = plan.alignment;
  json["tensors"] = toJsonValue(plan.tensors);
  json["notes"] = plan.notes;
  json["breakdown"] = toJsonValue(breakdownAtPeak(plan));
  json["buffers"] = plan.graphs.empty() ? Json::array() : buffersOf(plan.graphs.front());
  Json graphs = Json::array();
  for (size_t i = 0; i < plan.graphs.size(); ++i) {
    const GraphPlan &graph = plan.graphs[i];
    Json item;
    item["name"] = graph.name;
    item["step_count"] = graph.stepCount;
    item["live_peak_bytes"] = graph.livePeakBytes;
    item["peak_step"] = graph.peakStep;
    item["lower_bound_bytes"] = graph.lowerBoundBytes;
    item["step_names"] = graph.stepNames;
    item["reference_steps"] = graph.referenceSteps;
    if (i > 0)
      item["buffers"] = buffersOf(graph);
    graphs.push_back(std::move(item));
  }
  json["graphs"] = std::move(graphs);
  return json;
}

Plan planFrom(const JsonNode &node) {
  Plan plan;
  plan.model = node.text("model");
  plan.arenaBytes = node.count("arena_bytes");
  plan.livePeakBytes = node.count("live_peak_bytes");
  plan.lowerBoundBytes = node.count("lower_bound_bytes");
  plan.logicalBoundBytes = node.count("logical_bound_bytes");
  plan.status = node.text("status");
  plan.extraTimeFraction = node.number("extra_time_fraction");
  plan.extraTimeBound = node.number("extra_time_bound_fraction");
  plan.stepSeconds = node.number("step_seconds");
  plan.costSource = node.text("cost_source");
  plan.persistentBytes = node.count("persistent_bytes");
  plan.withoutRecomputeBytes = node.count("without_recompute_bytes");
  plan.outsideArenaBytes = node.count("outside_arena_bytes");
  plan.alignment = node.count("alignment");
  plan.tensors = countsFrom(node.at("tensors"));
  plan.notes = node.texts("notes");
  node.forEach("graphs", [&](const JsonNode &graph) { plan.graphs.push_back(graphFrom(graph)); });
  if (!plan.graphs.empty())
    node.forEach("buffers", [&](const JsonNode &buffer) {
      plan.graphs.front().buffers.push_back(bufferFrom(buffer));
    });
  return plan;
}

std::string toJson(const Plan &plan) { return dumpJson(toJsonValue(plan), 2) + "\n"; }

Plan planFromJson(std::string_view text) {
  Json json = parseJson(text, "plan");
  return planFrom(JsonNode(json, "plan"));
}

} // namespace stow
