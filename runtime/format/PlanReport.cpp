#include "runtime/format/PlanReport.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Text.h"
#include "runtime/format/PrintableText.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

namespace stow {

namespace {

/// Longest name in a report, in characters.
constexpr size_t nameWidth = 120;
/// Of five chips' engines.
constexpr size_t implementationWidth = 400;

std::string milliseconds(double seconds) {
  char text[40] = "";
  std::snprintf(text, sizeof(text), "%.3f", 1e3 * seconds);
  return text;
}

std::string padLeft(const std::string &text, size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string padRight(const std::string &text, size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

std::string mebibytes(Bytes bytes) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.2f", static_cast<double>(bytes) / (1 << 20));
  return text;
}

std::string percent(double fraction) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * fraction);
  return text;
}

/// Rows of cells under each other; the columns in `rightAligned` are pushed to the right.
class Table {
public:
  explicit Table(std::vector<bool> rightAligned) : rightAligned(std::move(rightAligned)) {}

  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }

  std::string text(const std::string &indent) const {
    std::vector<size_t> widths(rightAligned.size(), 0);
    for (const auto &row : rows)
      for (size_t i = 0; i < row.size(); ++i)
        widths[i] = std::max(widths[i], row[i].size());
    std::string out;
    for (const auto &row : rows) {
      std::string line = indent;
      for (size_t i = 0; i < row.size(); ++i) {
        line += i ? "  " : "";
        line += rightAligned[i] ? padLeft(row[i], widths[i]) : padRight(row[i], widths[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

private:
  std::vector<bool> rightAligned;
  std::vector<std::vector<std::string>> rows;
};

std::string stepTitle(const GraphPlan &graph, int64_t step) {
  std::string title = concat("command ", step, " of ", graph.stepCount);
  if (step >= 0 && step < static_cast<int64_t>(graph.steps.size()))
    title += " (" + printableText(graph.steps[step].name, nameWidth) + ")";
  return title;
}

std::string renderLiveSet(const Plan &plan, const GraphPlan &graph, const ReportOptions &options) {
  std::vector<const PlannedBuffer *> live = liveAtPeak(plan, graph);
  std::string out = concat("live at the peak: graph ", graph.name(), ", ",
                           stepTitle(graph, graph.peakStep), ", ", live.size(), " buffers\n");
  Table table({true, true, true, false, false, false, false, false});
  table.add({"#", "bytes", "MiB", "kind", "type", "shape", "name", "from"});
  size_t shown = std::min<size_t>(live.size(), std::max<int64_t>(options.liveRows, 0));
  for (size_t i = 0; i < shown; ++i) {
    const PlannedBuffer &buffer = *live[i];
    std::string kind(nameOf(buffer.kind));
    table.add({std::to_string(i + 1), groupDigits(buffer.size), mebibytes(buffer.size),
               !buffer.recomputed                         ? kind
               : buffer.kind == BufferKind::FetchedWeight ? kind + " (again)"
                                                          : kind + " (recomputed)",
               std::string(nameOf(buffer.dtype)), shapeText(buffer.shape),
               printableText(buffer.name, nameWidth), printableText(buffer.source, nameWidth)});
  }
  Bytes rest = 0, total = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    total += live[i]->size;
    rest += i < shown ? 0 : live[i]->size;
  }
  if (shown < live.size())
    table.add(
        {"", groupDigits(rest), mebibytes(rest), concat(live.size() - shown, " smaller buffers")});
  table.add({"=", groupDigits(total), mebibytes(total), "live"});
  return out + table.text("  ");
}

/// True where some library call can run in several ways.
bool hasChoices(const Plan &plan) {
  for (const GraphPlan &graph : plan.graphs)
    for (const PlannedStep &step : graph.steps)
      if (!step.implementation.empty())
        return true;
  return false;
}

std::string renderSum(const Plan &plan) {
  Breakdown parts = breakdownAtPeak(plan);
  const std::vector<std::tuple<const char *, const char *, Bytes>> rows = {
      {"", "parameters", parts.parameters},
      {"+", "frozen", parts.frozen},
      {"+", "statistics", parts.statistics},
      {"+", "optimizer", parts.optimizer},
      {"+", "sums of gradients", parts.accumulators},
      {"+", "weights, fetched", parts.fetchedWeights},
      {"+", "optimizer, fetched", parts.fetchedOptimizer},
      {"+", "data set", parts.dataSet},
      {"+", "gradients", parts.gradients},
      {"+", "activations", parts.activations},
      {"+", "workspace", parts.workspace},
      {"+", "I/O", parts.inputs + parts.outputs},
      {"+", "layout padding", parts.layoutPadding},
      {"+", "padding", parts.padding},
      {"=", "arena", plan.arenaBytes},
  };
  constexpr std::string_view seldom[] = {"frozen",           "sums of gradients",
                                         "weights, fetched", "optimizer, fetched",
                                         "data set",         "layout padding"};
  Table table({false, false, true, true, true});
  table.add({"", "at the peak", "bytes", "MiB", "share"});
  for (const auto &[sign, name, bytes] : rows) {
    if (bytes == 0 && std::ranges::find(seldom, name) != std::end(seldom))
      continue;
    // An empty plan has no shares: 0 of 0 is shown as nothing rather than divided.
    table.add({sign, name, groupDigits(bytes), mebibytes(bytes),
               plan.arenaBytes > 0 ? percent(static_cast<double>(bytes) / plan.arenaBytes) : ""});
  }
  auto fact = [&](const char *name, Bytes bytes, const std::string &note) {
    table.add({"", name, groupDigits(bytes), mebibytes(bytes), note});
  };
  std::string status = plan.status.empty() ? "unknown" : printableText(plan.status);
  table.add({});
  // How far the arena lies above each figure; a figure of zero has no ratio.
  auto above = [&](Bytes bytes) {
    double ratio = bytes > 0 ? static_cast<double>(plan.arenaBytes) / bytes - 1 : 0;
    return bytes > 0 ? "arena " + std::string(ratio < 0 ? "" : "+") + percent(ratio) : "";
  };
  fact("live peak", plan.livePeakBytes, above(plan.livePeakBytes));
  fact("lower bound", plan.lowerBoundBytes, above(plan.lowerBoundBytes));
  if (plan.logicalBoundBytes != plan.lowerBoundBytes)
    fact("of logical bytes", plan.logicalBoundBytes, above(plan.logicalBoundBytes));
  if (plan.withoutRecomputeBytes > 0)
    fact("without recompute", plan.withoutRecomputeBytes, above(plan.withoutRecomputeBytes));
  if (plan.outsideArenaBytes > 0)
    fact("outside the arena", plan.outsideArenaBytes, "");
  if (plan.outsideArenaBytes > 0 && !plan.outsideNote.empty())
    fact("of the process", plan.arenaBytes + plan.outsideArenaBytes, "");
  if (plan.slowBytes > 0)
    fact("slow memory", plan.slowBytes, "");
  std::string out = table.text("  ");
  const std::string copies = describeCopies(plan);
  out +=
      "packing: " + status + "; extra time for recomputation" +
      (hasChoices(plan) ? " and slower calls: " : ": ") + percent(recomputedFractionOf(plan)) +
      (plan.extraTimeBound > 0 && copies.empty() ? ", lower bound " + percent(plan.extraTimeBound)
                                                 : "") +
      (plan.costSource.empty() ? "" : " (" + printableText(plan.costSource) + ")") + "\n";
  if (!copies.empty())
    out += copies + "\n";
  if (plan.devices > 1)
    out += describeReductions(plan) + "\n";
  if (!plan.outsideNote.empty())
    out += "outside the arena: " + printableText(plan.outsideNote, 1000) + "\n";
  for (const std::string &note : plan.notes)
    out += printableText(note, 1000) + "\n";
  std::string references = describeReferences(plan);
  return references.empty() ? out : out + references + "\n";
}

/// Scratch of the library calls that can run in several ways: which ones were taken, the largest
/// first. Empty where no call has a choice.
std::string renderWorkspaces(const GraphPlan &graph) {
  constexpr size_t kRows = 8;
  std::map<int64_t, const PlannedBuffer *> ofStep;
  for (const PlannedBuffer &buffer : graph.buffers)
    if (buffer.kind == BufferKind::Workspace)
      ofStep[buffer.begin] = &buffer;
  size_t calls = 0;
  std::vector<std::pair<Bytes, int64_t>> largest;
  for (int64_t step = 0; step < static_cast<int64_t>(graph.steps.size()); ++step) {
    if (graph.steps[step].implementation.empty())
      continue;
    ++calls;
    if (auto found = ofStep.find(step); found != ofStep.end())
      largest.emplace_back(found->second->size, step);
  }
  if (calls == 0)
    return "";
  std::sort(largest.begin(), largest.end(), [](const auto &a, const auto &b) {
    return std::pair(-a.first, a.second) < std::pair(-b.first, b.second);
  });
  std::string out = concat("\nlibrary calls of ", graph.name(), ": ", calls, ", ", largest.size(),
                           " with a workspace in the arena\n");
  Table table({true, true, true, false, false});
  if (!largest.empty())
    table.add({"command", "bytes", "MiB", "call", "implementation"});
  for (size_t i = 0; i < std::min(largest.size(), kRows); ++i) {
    const auto [bytes, step] = largest[i];
    table.add({std::to_string(step), groupDigits(bytes), mebibytes(bytes),
               printableText(graph.steps[step].name, nameWidth),
               printableText(graph.steps[step].implementation, implementationWidth)});
  }
  return out + table.text("  ");
}

/// What each shape of a step takes, the largest first.
std::string renderShapes(const Plan &plan) {
  Table table({false, true, true, true, true});
  table.add({"shape", "bytes", "MiB", "ms per step", travels(plan) ? "extra time" : "recomputed"});
  for (const PlannedShape &shape : plan.shapes) {
    table.add({printableText(shape.name, nameWidth), groupDigits(shape.arenaBytes),
               mebibytes(shape.arenaBytes),
               shape.stepSeconds > 0 ? milliseconds(shape.stepSeconds) : "",
               percent(shape.extraTimeFraction)});
  }
  return table.text("  ");
}

/// `name` as a CSV field that needs no quotes.
std::string csvName(std::string name) {
  for (char &c : name)
    if (c == ',' || c == '"' || static_cast<unsigned char>(c) < 32 || c == 127)
      c = '_';
  return name;
}

} // namespace

std::string describeReferences(const Plan &plan) {
  size_t calls = 0;
  std::map<std::string, size_t> kinds;
  for (const GraphPlan &graph : plan.graphs)
    for (int64_t step : graph.referenceSteps) {
      ++calls;
      if (step >= 0 && step < static_cast<int64_t>(graph.steps.size()))
        ++kinds[graph.steps[step].op];
    }
  if (calls == 0)
    return "";
  std::string list;
  for (const auto &[kind, count] : kinds)
    append(list, list.empty() ? "" : ", ", count, " ", kind);
  return concat(calls, calls == 1 ? " library call runs" : " library calls run",
                " reference code, some hundred times slower than the library's other code: ", list);
}

bool travels(const Plan &plan) {
  return std::ranges::any_of(plan.graphs,
                             [](const GraphPlan &graph) { return graph.copies.has_value(); });
}

double waitSecondsOf(const Plan &plan) {
  double seconds = 0;
  for (const GraphPlan &graph : plan.graphs) {
    if (!graph.copies || !graph.shape.empty() || graph.role == GraphRole::Eval)
      continue;
    const int64_t runs = graph.role == GraphRole::Accumulate ? plan.batchesPerStep - 1 : 1;
    seconds += static_cast<double>(runs) * graph.copies->exposedSeconds;
  }
  return seconds;
}

double recomputedFractionOf(const Plan &plan) {
  const double waits = waitSecondsOf(plan);
  if (waits == 0)
    return plan.extraTimeFraction;
  // What runs once takes step / (1 + extra). Whole nanoseconds, so that waits alone leave exactly nothing.
  const double extra = plan.stepSeconds - plan.stepSeconds / (1 + plan.extraTimeFraction);
  const double again = std::round((extra - waits) * 1e9);
  return std::max(0.0, again) / 1e9 / (plan.stepSeconds - extra);
}

std::string describeCopies(const Plan &plan) {
  std::string text;
  for (const GraphPlan &graph : plan.graphs)
    if (graph.copies)
      append(text, text.empty() ? "slow memory: " : "; ", graph.name(), " sends ",
             formatBytes(graph.copies->bytesOut), " and fetches ",
             formatBytes(graph.copies->bytesIn), ", ", formatBytes(graph.copies->slowPeakBytes),
             " of them there at once; it waits ", milliseconds(graph.copies->exposedSeconds), " ms",
             " for copies and hides ", milliseconds(graph.copies->hiddenSeconds), " ms",
             " of them");
  if (!text.empty())
    text += "; all in all " + percent(plan.extraTimeFraction) + " more time" +
            (plan.extraTimeBound > 0
                 ? " (no plan in this memory takes less than " + percent(plan.extraTimeBound) + ")"
                 : "");
  return text;
}

/// "; of 5.12 ms on the network a step waits 0.31 ms", where that is known.
static std::string exposureOf(const PlannedReductions &reductions) {
  if (!reductions.seconds)
    return "";
  return concat("; of ", milliseconds(*reductions.seconds), " ms on the network it waits ",
                milliseconds(reductions.exposedSeconds.value_or(0)), " ms, ", reductions.started,
                " of ", reductions.count + reductions.gathers, " started ahead of what needs them");
}

std::string describeReductions(const Plan &plan) {
  if (plan.devices == 1)
    return "";
  std::string text = concat("devices: ", plan.devices,
                            ", each with this plan and a batch of its own, the model's");
  for (const GraphPlan &graph : plan.graphs)
    if (graph.reductions)
      append(text, "; ", graph.name(),
             graph.reductions->count > 0
                 ? concat(" adds up ", formatBytesExact(graph.reductions->bytes), " in ",
                          graph.reductions->count,
                          graph.reductions->count == 1 ? " reduction" : " reductions",
                          graph.reductions->gathers > 0 ? " and" : "")
                 : "",
             graph.reductions->gathers > 0
                 ? concat(" gathers ", formatBytesExact(graph.reductions->gatheredBytes),
                          " of shards in ", graph.reductions->gathers)
                 : "",
             ", for which each sends and gets ", formatBytesExact(graph.reductions->sentBytes),
             exposureOf(*graph.reductions));
  return text;
}

std::string groupDigits(int64_t value) {
  std::string digits = std::to_string(value);
  size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string describe(const TensorCounts &counts) {
  if (counts.source.empty())
    return "";
  auto part = [](const TensorCounts::Count &count, const char *what) {
    return count.tensors == 0 ? ""
                              : ", " + groupDigits(count.tensors) + " " + what + " (" +
                                    groupDigits(count.elements) + ")";
  };
  return groupDigits(counts.trained.tensors) + " tensors trained (" +
         groupDigits(counts.trained.elements) + " elements)" + part(counts.frozen, "frozen") +
         part(counts.statistics, "statistics") + part(counts.constant, "constant") + "; by " +
         printableText(counts.source, 1000);
}

std::string renderText(const Plan &plan, const ReportOptions &options) {
  std::string out = concat("memory plan of ", printableText(plan.model, nameWidth), ": arena ",
                           groupDigits(plan.arenaBytes), " bytes (", mebibytes(plan.arenaBytes),
                           " MiB), alignment ", plan.alignment,
                           plan.workspaceAlignment == plan.alignment
                               ? ""
                               : concat(", of workspaces ", plan.workspaceAlignment),
                           "\n");
  if (const std::string counts = describe(plan.tensors); !counts.empty())
    out += "  " + counts + "\n";
  if (!plan.shapes.empty())
    out += renderShapes(plan);
  for (const GraphPlan &graph : plan.graphs)
    append(out, "  ", graph.name(), ": ", graph.stepCount, " commands, ", graph.buffers.size(),
           " buffers, live peak ", groupDigits(graph.livePeakBytes), " bytes at command ",
           graph.peakStep, "\n");
  if (std::optional<size_t> peak = peakGraph(plan)) {
    const GraphPlan &graph = plan.graphs[*peak];
    if (options.map)
      out += "\n" + renderMap(plan, graph, options);
    out += "\n" + renderLiveSet(plan, graph, options);
  }
  if (const GraphPlan *train = findStepGraph(plan))
    out += renderWorkspaces(*train);
  return out + "\n" + renderSum(plan);
}

std::string toCsv(const Plan &plan) {
  int64_t horizon = 0;
  for (const GraphPlan &graph : plan.graphs)
    horizon += graph.stepCount;
  std::string out = "id,lower,upper,size,offset\n";
  std::map<std::string, int64_t> uses;
  std::set<std::pair<std::string, Bytes>> persistent;
  auto add = [&](const PlannedBuffer &buffer, int64_t begin, int64_t end) {
    // Identifiers are unique: the second "x" is "x#2".
    std::string id = csvName(buffer.name);
    int64_t use = ++uses[id];
    if (use > 1)
      append(id, "#", use);
    append(out, id, ",", begin, ",", end, ",", buffer.size, ",", buffer.offset, "\n");
  };
  int64_t start = 0;
  for (const GraphPlan &graph : plan.graphs) {
    for (const PlannedBuffer &buffer : graph.buffers) {
      if (buffer.size == 0)
        continue; // the format has no empty buffers
      if (buffer.offset + buffer.size > plan.persistentBytes)
        add(buffer, start + buffer.begin, start + buffer.end);
      else if (persistent.insert({buffer.name, buffer.offset}).second)
        add(buffer, 0, horizon);
    }
    start += graph.stepCount;
  }
  return out;
}

} // namespace stow
