// The public JSON form of a plan; docs/plan-format.md describes each key.
//
// `buffers` at the top level are those of the first graph, the training step, so that a reader who
// knows nothing of further graphs sees one consistent timeline. Each further graph carries its own
// `buffers`.
#include "runtime/format/PlanJson.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Names.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>

namespace stow {

namespace {

/// Texts that many records share, by number in the order of their first use.
class StringTable {
public:
  /// Leaves the key out where `text` is empty, as it is in most records.
  void add(Json &record, const char *key, const std::string &text) {
    if (text.empty())
      return;
    auto [place, isNew] = numbers.emplace(text, texts.size());
    if (isNew)
      texts.push_back(text);
    record[key] = place->second;
  }

  Json texts = Json::array();

private:
  std::unordered_map<std::string, size_t> numbers;
};

/// The text whose number stands under `key`; empty where there is none.
std::string textOf(const JsonNode &node, const char *key, const std::vector<std::string> &strings) {
  if (!node.has(key))
    return "";
  const int64_t number = node.count(key);
  if (number >= static_cast<int64_t>(strings.size()))
    node.fail(key, concat("expected a number below that of strings (", strings.size(), "), found ",
                          number));
  return strings[number];
}

/// Names, and what each is and since when where the plan says it; step -1 stands for none.
void addAliases(Json &record, const std::vector<PlannedAlias> &aliases) {
  Json names = Json::array(), kinds = Json::array(), steps = Json::array();
  for (const PlannedAlias &alias : aliases) {
    names.push_back(alias.name);
    if (!alias.kind)
      continue;
    kinds.push_back(nameOf(*alias.kind));
    steps.push_back(alias.step.value_or(-1));
  }
  record["aliases"] = std::move(names);
  if (kinds.empty())
    return;
  record["alias_kinds"] = std::move(kinds);
  record["alias_steps"] = std::move(steps);
}

Json toJsonValue(const PlannedBuffer &buffer, const std::string &graph, StringTable &strings) {
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
  addAliases(json, buffer.aliases);
  json["recomputed"] = buffer.recomputed;
  strings.add(json, "module", buffer.module);
  strings.add(json, "layout", buffer.layout);
  strings.add(json, "reason", buffer.reason);
  if (buffer.recomputeSeconds)
    json["recompute_seconds"] = *buffer.recomputeSeconds;
  return json;
}

Json toJsonValue(const PlannedStep &step, StringTable &strings) {
  Json json;
  strings.add(json, "op", step.op);
  strings.add(json, "source", step.source);
  strings.add(json, "module", step.module);
  json["phase"] = step.phaseName();
  if (step.seconds > 0)
    json["seconds"] = step.seconds;
  json["reads"] = step.reads;
  json["writes"] = step.writes;
  if (step.recomputes)
    json["recomputes"] = *step.recomputes;
  strings.add(json, "implementation", step.implementation);
  return json;
}

Json buffersOf(const GraphPlan &graph, StringTable &strings) {
  Json buffers = Json::array();
  for (const PlannedBuffer &buffer : graph.buffers)
    buffers.push_back(toJsonValue(buffer, graph.name(), strings));
  return buffers;
}

Json toJsonValue(const Breakdown &breakdown) {
  Json json;
  json["parameters"] = breakdown.parameters;
  if (breakdown.frozen > 0)
    json["frozen"] = breakdown.frozen;
  json["statistics"] = breakdown.statistics;
  json["optimizer"] = breakdown.optimizer;
  if (breakdown.accumulators > 0)
    json["accumulators"] = breakdown.accumulators;
  if (breakdown.fetchedWeights > 0)
    json["fetched_weight"] = breakdown.fetchedWeights;
  if (breakdown.fetchedOptimizer > 0)
    json["fetched_optimizer"] = breakdown.fetchedOptimizer;
  if (breakdown.dataSet > 0)
    json["data_set"] = breakdown.dataSet;
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

/// Files that stowage wrote before it said what aliases are have neither alias_kinds nor _steps.
std::vector<PlannedAlias> aliasesFrom(const JsonNode &node) {
  std::vector<PlannedAlias> aliases;
  for (std::string &name : node.texts("aliases"))
    aliases.push_back({std::move(name), std::nullopt, std::nullopt});
  if (!node.has("alias_kinds"))
    return aliases;
  const std::vector<AliasKind> kinds = node.parsedTexts("alias_kinds", parseAliasKind);
  if (kinds.size() != aliases.size())
    node.fail("alias_kinds", concat("expected a kind for each of the ", aliases.size(),
                                    " aliases, found ", kinds.size()));
  for (size_t i = 0; i < kinds.size(); ++i)
    aliases[i].kind = kinds[i];
  if (!node.has("alias_steps"))
    return aliases;
  const std::vector<int64_t> steps = node.integers("alias_steps");
  if (steps.size() != aliases.size())
    node.fail("alias_steps", concat("expected a command for each of the ", aliases.size(),
                                    " aliases, found ", steps.size()));
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i] >= 0)
      aliases[i].step = steps[i];
  return aliases;
}

PlannedBuffer bufferFrom(const JsonNode &node, const std::vector<std::string> &strings) {
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
  buffer.aliases = aliasesFrom(node);
  buffer.recomputed = node.boolean("recomputed");
  buffer.module = textOf(node, "module", strings);
  buffer.layout = textOf(node, "layout", strings);
  buffer.reason = textOf(node, "reason", strings);
  if (node.has("recompute_seconds"))
    buffer.recomputeSeconds = node.number("recompute_seconds");
  if (buffer.logicalSize > buffer.size)
    node.fail("logical_size",
              concat("expected at most size (", buffer.size, "), found ", buffer.logicalSize));
  if (buffer.end < buffer.begin)
    node.fail("end", concat("expected at least begin (", buffer.begin, "), found ", buffer.end));
  return buffer;
}

PlannedStep stepFrom(const JsonNode &node, const std::vector<std::string> &strings) {
  PlannedStep step;
  step.op = textOf(node, "op", strings);
  step.source = textOf(node, "source", strings);
  step.module = textOf(node, "module", strings);
  step.implementation = textOf(node, "implementation", strings);
  if (!node.text("phase").empty())
    step.phase = node.parsed("phase", parseStepPhase);
  if (node.has("seconds"))
    step.seconds = node.number("seconds");
  step.reads = node.counts("reads");
  step.writes = node.counts("writes");
  if (node.has("recomputes"))
    step.recomputes = node.count("recomputes");
  return step;
}

Json toJsonValue(const PlannedShape &shape) {
  Json json;
  json["name"] = shape.name;
  json["extents"] = Json::object();
  for (const auto &[axis, extent] : shape.extents)
    json["extents"][axis] = extent;
  json["arena_bytes"] = shape.arenaBytes;
  json["step_seconds"] = shape.stepSeconds;
  json["extra_time_fraction"] = shape.extraTimeFraction;
  return json;
}

Json toJsonValue(const PlannedCopy &copy) {
  Json json;
  json["name"] = copy.name;
  json["direction"] = copy.isOut ? "out" : "in";
  json["buffer"] = copy.buffer;
  json["bytes"] = copy.bytes;
  json["start"] = copy.start;
  json["await"] = copy.await;
  json["begin_seconds"] = copy.beginSeconds;
  json["seconds"] = copy.seconds;
  return json;
}

Json toJsonValue(const PlannedCopies &copies) {
  Json json;
  json["bytes_out"] = copies.bytesOut;
  json["bytes_in"] = copies.bytesIn;
  json["hidden_seconds"] = copies.hiddenSeconds;
  json["exposed_seconds"] = copies.exposedSeconds;
  json["slow_peak_bytes"] = copies.slowPeakBytes;
  json["each"] = Json::array();
  for (const PlannedCopy &copy : copies.each)
    json["each"].push_back(toJsonValue(copy));
  return json;
}

double secondsFrom(const JsonNode &node, const char *key) {
  const double seconds = node.number(key);
  if (seconds < 0)
    node.fail(key, "expected 0 or more, found " + std::to_string(seconds));
  return seconds;
}

PlannedCopy copyFrom(const JsonNode &node) {
  PlannedCopy copy;
  copy.name = node.text("name");
  copy.isOut = node.parsed("direction", [](const std::string &text) {
    return oneOf(text, {"out", "in"}, "direction") == 0;
  });
  copy.buffer = node.count("buffer");
  copy.bytes = node.count("bytes");
  copy.start = node.count("start");
  copy.await = node.count("await");
  copy.beginSeconds = secondsFrom(node, "begin_seconds");
  copy.seconds = secondsFrom(node, "seconds");
  if (copy.await <= copy.start)
    node.fail("await",
              concat("expected a command behind start (", copy.start, "), found ", copy.await));
  return copy;
}

PlannedCopies copiesFrom(const JsonNode &node) {
  PlannedCopies copies;
  copies.bytesOut = node.count("bytes_out");
  copies.bytesIn = node.count("bytes_in");
  copies.hiddenSeconds = secondsFrom(node, "hidden_seconds");
  copies.exposedSeconds = secondsFrom(node, "exposed_seconds");
  copies.slowPeakBytes = node.count("slow_peak_bytes");
  if (node.has("each"))
    node.forEach("each", [&](const JsonNode &copy) { copies.each.push_back(copyFrom(copy)); });
  return copies;
}

Json reductionsJson(const PlannedReductions &reductions) {
  Json json;
  json["count"] = reductions.count;
  json["bytes"] = reductions.bytes;
  if (reductions.gathers > 0) {
    json["gathers"] = reductions.gathers;
    json["gathered_bytes"] = reductions.gatheredBytes;
  }
  json["sent_bytes"] = reductions.sentBytes;
  if (reductions.seconds) {
    json["started"] = reductions.started;
    json["seconds"] = *reductions.seconds;
    json["exposed_seconds"] = reductions.exposedSeconds.value_or(0);
  }
  return json;
}

PlannedReductions reductionsFrom(const JsonNode &node) {
  PlannedReductions reductions;
  reductions.count = node.count("count");
  reductions.bytes = node.count("bytes");
  if (node.has("gathers")) {
    reductions.gathers = node.count("gathers");
    reductions.gatheredBytes = node.count("gathered_bytes");
  }
  reductions.sentBytes = node.count("sent_bytes");
  if (node.has("seconds")) {
    reductions.started = node.count("started");
    reductions.seconds = node.number("seconds");
    reductions.exposedSeconds = node.number("exposed_seconds");
  }
  return reductions;
}

PlannedShape shapeFrom(const JsonNode &node) {
  PlannedShape shape;
  shape.name = node.text("name");
  node.forEachMember("extents", [&](const std::string &axis, const JsonNode &extent) {
    shape.extents[axis] = extent.asIntegerIn(1, std::numeric_limits<int64_t>::max());
  });
  shape.arenaBytes = node.count("arena_bytes");
  shape.stepSeconds = node.number("step_seconds");
  shape.extraTimeFraction = node.number("extra_time_fraction");
  return shape;
}

/// Steps name buffers and earlier steps that exist, and buffers live within the graph.
void checkNumbers(const GraphPlan &graph, const JsonNode &node) {
  if (graph.stepCount != static_cast<int64_t>(graph.steps.size()))
    node.fail("steps", concat("expected step_count (", graph.stepCount, ") of them, found ",
                              graph.steps.size()));
  const auto buffers = static_cast<int64_t>(graph.buffers.size());
  for (int64_t i = 0; i < graph.stepCount; ++i) {
    const PlannedStep &step = graph.steps[i];
    const std::string key = concat("steps[", i, "]");
    for (const std::vector<int64_t> *list : {&step.reads, &step.writes})
      for (int64_t buffer : *list)
        if (buffer >= buffers)
          node.fail((key + (list == &step.reads ? ".reads" : ".writes")).c_str(),
                    concat("expected numbers below ", buffers, ", found ", buffer));
    if (step.recomputes && *step.recomputes >= i)
      node.fail((key + ".recomputes").c_str(),
                concat("expected the number of an earlier step, found ", *step.recomputes));
  }
  const std::vector<PlannedCopy> copies =
      graph.copies ? graph.copies->each : std::vector<PlannedCopy>();
  for (size_t i = 0; i < copies.size(); ++i)
    for (const auto &[key, number, end] : {std::tuple("buffer", copies[i].buffer, buffers),
                                           std::tuple("await", copies[i].await, graph.stepCount)})
      if (number >= end)
        node.fail(concat("copies.each[", i, "].", key).c_str(),
                  concat("expected a number below ", end, ", found ", number));
  for (int64_t i = 0; i < buffers; ++i)
    if (graph.buffers[i].end > graph.stepCount)
      node.fail(concat("buffers[", i, "].end").c_str(),
                concat("expected at most step_count (", graph.stepCount, "), found ",
                       graph.buffers[i].end));
  if (graph.peakStep >= std::max<int64_t>(graph.stepCount, 1))
    node.fail("peak_step",
              concat("expected a step below ", graph.stepCount, ", found ", graph.peakStep));
}

GraphPlan graphFrom(const JsonNode &node, const std::vector<std::string> &strings) {
  GraphPlan graph;
  graph.role = node.parsed("name", parseGraphRole);
  if (node.has("shape"))
    graph.shape = node.text("shape");
  graph.stepCount = node.count("step_count");
  graph.livePeakBytes = node.count("live_peak_bytes");
  graph.peakStep = node.count("peak_step");
  graph.lowerBoundBytes = node.count("lower_bound_bytes");
  node.forEach("steps",
               [&](const JsonNode &step) { graph.steps.push_back(stepFrom(step, strings)); });
  const std::vector<std::string> names = node.texts("step_names");
  if (names.size() != graph.steps.size())
    node.fail("step_names", concat("expected a name for each of the ", graph.steps.size(),
                                   " steps, found ", names.size()));
  for (size_t i = 0; i < names.size(); ++i)
    graph.steps[i].name = names[i];
  graph.referenceSteps = node.counts("reference_steps");
  if (node.has("copies"))
    graph.copies = copiesFrom(node.at("copies"));
  if (node.has("reductions"))
    graph.reductions = reductionsFrom(node.at("reductions"));
  if (node.has("buffers"))
    node.forEach("buffers", [&](const JsonNode &buffer) {
      graph.buffers.push_back(bufferFrom(buffer, strings));
    });
  return graph;
}

} // namespace

Json toJsonValue(const Plan &plan) {
  Json json;
  json["format"] = kPlanFormat;
  json["model"] = plan.model;
  if (plan.batchesPerStep > 1)
    json["batches_per_step"] = plan.batchesPerStep;
  if (plan.devices > 1)
    json["devices"] = plan.devices;
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
  if (!plan.outsideNote.empty())
    json["outside_note"] = plan.outsideNote;
  if (plan.slowBytes > 0)
    json["slow_bytes"] = plan.slowBytes;
  json["alignment"] = plan.alignment;
  if (plan.workspaceAlignment != plan.alignment)
    json["workspace_alignment"] = plan.workspaceAlignment;
  json["tensors"] = toJsonValue(plan.tensors);
  json["notes"] = plan.notes;
  if (!plan.shapes.empty())
    json["shapes"] = Json::array();
  for (const PlannedShape &shape : plan.shapes)
    json["shapes"].push_back(toJsonValue(shape));
  json["breakdown"] = toJsonValue(breakdownAtPeak(plan));
  StringTable strings;
  json["buffers"] = plan.graphs.empty() ? Json::array() : buffersOf(plan.graphs.front(), strings);
  Json graphs = Json::array();
  for (size_t i = 0; i < plan.graphs.size(); ++i) {
    const GraphPlan &graph = plan.graphs[i];
    Json item;
    item["name"] = nameOf(graph.role);
    if (!graph.shape.empty())
      item["shape"] = graph.shape;
    item["step_count"] = graph.stepCount;
    item["live_peak_bytes"] = graph.livePeakBytes;
    item["peak_step"] = graph.peakStep;
    item["lower_bound_bytes"] = graph.lowerBoundBytes;
    if (graph.copies)
      item["copies"] = toJsonValue(*graph.copies);
    if (graph.reductions)
      item["reductions"] = reductionsJson(*graph.reductions);
    item["step_names"] = Json::array();
    for (const PlannedStep &step : graph.steps)
      item["step_names"].push_back(step.name);
    item["reference_steps"] = graph.referenceSteps;
    item["steps"] = Json::array();
    for (const PlannedStep &step : graph.steps)
      item["steps"].push_back(toJsonValue(step, strings));
    if (i > 0)
      item["buffers"] = buffersOf(graph, strings);
    graphs.push_back(std::move(item));
  }
  json["graphs"] = std::move(graphs);
  json["strings"] = std::move(strings.texts);
  return json;
}

Plan planFrom(const JsonNode &node) {
  // The first format had no number.
  bool isFirst = !node.has("format") && node.has("arena_bytes");
  if (int64_t format = isFirst ? 1 : node.count("format"); format != kPlanFormat)
    node.fail("format", concat("expected ", kPlanFormat, ", found ", format,
                               format > kPlanFormat ? ": written by a newer stowage"
                                                    : ": written by an older stowage; plan again"));
  Plan plan;
  plan.model = node.text("model");
  if (node.has("batches_per_step"))
    plan.batchesPerStep = node.count("batches_per_step");
  if (plan.batchesPerStep < 1)
    node.fail("batches_per_step", "expected 1 or more");
  plan.devices = node.has("devices") ? node.count("devices") : 1;
  if (plan.devices < 1)
    node.fail("devices", "expected 1 or more");
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
  if (node.has("outside_note"))
    plan.outsideNote = node.text("outside_note");
  if (node.has("slow_bytes"))
    plan.slowBytes = node.count("slow_bytes");
  plan.alignment = node.count("alignment");
  plan.workspaceAlignment =
      node.has("workspace_alignment") ? node.count("workspace_alignment") : plan.alignment;
  plan.tensors = countsFrom(node.at("tensors"));
  plan.notes = node.texts("notes");
  if (node.has("shapes"))
    node.forEach("shapes", [&](const JsonNode &shape) { plan.shapes.push_back(shapeFrom(shape)); });
  const std::vector<std::string> strings = node.texts("strings");
  node.forEach("graphs",
               [&](const JsonNode &graph) { plan.graphs.push_back(graphFrom(graph, strings)); });
  if (!plan.graphs.empty())
    node.forEach("buffers", [&](const JsonNode &buffer) {
      plan.graphs.front().buffers.push_back(bufferFrom(buffer, strings));
    });
  size_t number = 0;
  node.forEach("graphs",
               [&](const JsonNode &graph) { checkNumbers(plan.graphs[number++], graph); });
  return plan;
}

std::string toJson(const Plan &plan) { return dumpJsonLines(toJsonValue(plan)) + "\n"; }

Plan planFromJson(std::string_view text) {
  Json json = parseJson(text, "plan");
  return planFrom(JsonNode(json, "plan"));
}

} // namespace stow
