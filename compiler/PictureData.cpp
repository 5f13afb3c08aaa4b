#include "compiler/PictureData.h"
#include "runtime/base/Error.h"
#include "runtime/format/PlanJson.h"
#include "runtime/report/Explain.h"
#include "runtime/report/Remedies.h"
#include "runtime/report/Verdict.h"

#include <zlib.h>

#include <absl/strings/str_join.h>
#include <algorithm>
#include <functional>
#include <optional>

namespace stow {
namespace {

constexpr int64_t formatVersion = 1;

/// "64x3x7x7"; "scalar" without dimensions.
std::string shapeText(const Shape &shape) {
  return shape.empty() ? "scalar" : absl::StrJoin(shape, "x");
}

/// A column: `valueOf` of every row.
template <typename Row, typename ValueOf>
Json column(const std::vector<Row> &rows, ValueOf valueOf) {
  Json values = Json::array();
  for (const Row &row : rows)
    values.push_back(valueOf(row));
  return values;
}

template <typename Value> Json orNull(const std::optional<Value> &value) {
  return value ? Json(*value) : Json();
}

/// Copies of a graph, which the page draws as lanes.
Json copyColumns(const std::vector<PlannedCopy> &copies,
                 const std::function<int64_t(const std::string &)> &idOf) {
  using Copy = PlannedCopy;
  Json columns;
  columns["name"] = column(copies, [&](const Copy &copy) { return idOf(copy.name); });
  columns["is_out"] = column(copies, [](const Copy &copy) { return copy.isOut ? 1 : 0; });
  columns["buffer"] = column(copies, [](const Copy &copy) { return copy.buffer; });
  columns["bytes"] = column(copies, [](const Copy &copy) { return copy.bytes; });
  columns["start"] = column(copies, [](const Copy &copy) { return copy.start; });
  columns["await"] = column(copies, [](const Copy &copy) { return copy.await; });
  columns["begin_seconds"] = column(copies, [](const Copy &copy) { return copy.beginSeconds; });
  columns["seconds"] = column(copies, [](const Copy &copy) { return copy.seconds; });
  return columns;
}

/// What a run took, by command in the columns.
Json measuredColumns(const StepTimes &times) {
  Json measured;
  measured["threads"] = times.threads;
  measured["steps"] = times.steps;
  measured["input_seconds"] = times.inputSeconds;
  measured["rest_seconds"] = times.restSeconds;
  measured["seconds"] = times.seconds;
  measured["least_seconds"] = times.leastSeconds;
  measured["processor_seconds"] = times.processorSeconds;
  return measured;
}

/// What stays in the arena while the graph runs, and is no buffer of it: an optimizer's state during an
/// evaluation. It lives all the time.
std::vector<PlannedBuffer> withStateOutside(const Plan &plan, const GraphPlan &graph) {
  std::vector<PlannedBuffer> buffers = graph.buffers;
  for (const PlannedBuffer *state : stateOutside(plan, graph)) {
    buffers.push_back(*state);
    buffers.back().begin = 0;
    buffers.back().end = graph.stepCount;
  }
  return buffers;
}

/// What `stowage explain` says of the fullest graph: what runs again, what could, and other ways to
/// less. Absent for a plan without steps.
std::optional<Json> advice(const Plan &plan) {
  constexpr size_t mostSavings = 100;
  const std::optional<size_t> which = peakGraph(plan);
  if (!which || plan.graphs[*which].steps.empty())
    return std::nullopt;
  const GraphPlan &graph = plan.graphs[*which];
  Json packed;
  packed["graph"] = *which;
  const std::vector<Repeated> repeated = repeatedSteps(graph);
  Json &runs = packed["repeated"];
  runs["first"] = column(repeated, [](const Repeated &entry) { return entry.first; });
  runs["again"] = column(repeated, [](const Repeated &entry) { return entry.again; });
  runs["seconds"] = column(repeated, [](const Repeated &entry) { return entry.seconds; });
  runs["saved"] = column(repeated, [](const Repeated &entry) { return entry.saved; });
  std::vector<const PlannedBuffer *> savings = savingsAtPeak(graph);
  packed["savings_count"] = savings.size();
  savings.resize(std::min(savings.size(), mostSavings));
  packed["savings"] =
      column(savings, [&](const PlannedBuffer *buffer) { return buffer - graph.buffers.data(); });
  packed["remedies"] = column(remediesOf(plan), [](const Remedy &remedy) {
    return Json{{"text", remedy.text}, {"gain", remedy.gain}, {"changes", nameOf(remedy.changes)}};
  });
  return packed;
}

/// zlib's format at its default level.
std::string compressed(const std::string &text) {
  uLongf size = compressBound(text.size());
  std::string out(size, '\0');
  if (compress(reinterpret_cast<Bytef *>(out.data()), &size,
               reinterpret_cast<const Bytef *>(text.data()), text.size()) != Z_OK)
    throw Error::internal("the page's data cannot be compressed");
  out.resize(size);
  return out;
}

} // namespace

std::string toBase64(std::string_view bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(bytes.size() - i, 3);
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j)
      word = word << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j)
      text += j <= count ? digits[word >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

int64_t PictureData::idOf(const std::string &text) {
  auto [found, isNew] = numbers.try_emplace(text, static_cast<int64_t>(strings.size()));
  if (isNew)
    strings.push_back(text);
  return found->second;
}

Json PictureData::bufferColumns(const std::vector<PlannedBuffer> &buffers) {
  using Buffer = PlannedBuffer;
  auto text = [&](std::string Buffer::*member) {
    return column(buffers, [&](const Buffer &b) { return idOf(b.*member); });
  };
  auto number = [&](int64_t Buffer::*member) {
    return column(buffers, [&](const Buffer &b) { return b.*member; });
  };
  Json columns;
  columns["name"] = text(&Buffer::name);
  columns["kind"] =
      column(buffers, [&](const Buffer &b) { return idOf(std::string(nameOf(b.kind))); });
  columns["dtype"] =
      column(buffers, [&](const Buffer &b) { return idOf(std::string(nameOf(b.dtype))); });
  columns["shape"] = column(buffers, [&](const Buffer &b) { return idOf(shapeText(b.shape)); });
  columns["source"] = text(&Buffer::source);
  columns["module"] = text(&Buffer::module);
  columns["layout"] = text(&Buffer::layout);
  columns["reason"] = text(&Buffer::reason);
  columns["offset"] = number(&Buffer::offset);
  columns["size"] = number(&Buffer::size);
  columns["logical_size"] = number(&Buffer::logicalSize);
  columns["begin"] = number(&Buffer::begin);
  columns["end"] = number(&Buffer::end);
  columns["aliases"] = column(buffers, [&](const Buffer &b) {
    return column(b.aliases, [&](const PlannedAlias &alias) { return idOf(alias.name); });
  });
  columns["alias_kinds"] = column(buffers, [&](const Buffer &b) {
    return column(b.aliases, [&](const PlannedAlias &alias) {
      return idOf(alias.kind ? std::string(nameOf(*alias.kind)) : "");
    });
  });
  columns["alias_steps"] = column(buffers, [](const Buffer &b) {
    return column(b.aliases, [](const PlannedAlias &alias) { return alias.step.value_or(-1); });
  });
  columns["recomputed"] = column(buffers, [](const Buffer &b) { return b.recomputed ? 1 : 0; });
  columns["recompute_seconds"] =
      column(buffers, [](const Buffer &b) { return orNull(b.recomputeSeconds); });
  return columns;
}

Json PictureData::stepColumns(const std::vector<PlannedStep> &steps) {
  using Step = PlannedStep;
  auto text = [&](std::string Step::*member) {
    return column(steps, [&](const Step &s) { return idOf(s.*member); });
  };
  Json columns;
  columns["name"] = text(&Step::name);
  columns["source"] = text(&Step::source);
  columns["module"] = text(&Step::module);
  columns["phase"] = column(steps, [&](const Step &s) { return idOf(s.phaseName()); });
  columns["seconds"] = column(steps, [](const Step &s) { return s.seconds; });
  columns["reads"] = column(steps, [](const Step &s) { return s.reads; });
  columns["writes"] = column(steps, [](const Step &s) { return s.writes; });
  columns["recomputes"] = column(steps, [](const Step &s) { return orNull(s.recomputes); });
  columns["implementation"] = text(&Step::implementation);
  return columns;
}

size_t PictureData::add(const Plan &plan, const std::string &label, const StepTimes *times,
                        const std::optional<Card> &card) {
  Json entry;
  entry["label"] = label;
  Json &summary = entry["summary"] = toJsonValue(plan);
  for (const char *key : {"buffers", "graphs", "strings"})
    summary.erase(key);
  if (card)
    summary["verdict"] = toJsonValue(judge(plan, *card));
  Json &graphs = entry["graphs"] = Json::array();
  for (const GraphPlan &graph : plan.graphs) {
    Json packed;
    packed["name"] = graph.name();
    packed["step_count"] = graph.stepCount;
    packed["live_peak_bytes"] = fullestBytes(plan, graph);
    packed["peak_step"] = graph.peakStep;
    packed["lower_bound_bytes"] = graph.lowerBoundBytes;
    packed["steps"] = stepColumns(graph.steps);
    packed["buffers"] = bufferColumns(withStateOutside(plan, graph));
    if (graph.copies && !graph.copies->each.empty())
      packed["copies"] =
          copyColumns(graph.copies->each, [&](const std::string &name) { return idOf(name); });
    if (times && times->graph == graph.name())
      packed["measured"] = measuredColumns(*times);
    graphs.push_back(std::move(packed));
  }
  if (std::optional<Json> found = advice(plan))
    entry["advice"] = std::move(*found);
  plans.push_back(std::move(entry));
  return plans.size() - 1;
}

Json PictureData::document() const {
  Json document;
  document["version"] = formatVersion;
  document["strings"] = strings;
  document["plans"] = plans;
  for (const auto &item : extras.items())
    document[item.key()] = item.value();
  return document;
}

std::string PictureData::packed() const { return toBase64(compressed(dumpJson(document(), -1))); }

} // namespace stow
