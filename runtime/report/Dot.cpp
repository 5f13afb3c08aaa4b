// Graphviz. Ids are numbers, names stand in labels alone, so that no name can break the file.
#include "runtime/base/Bytes.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Text.h"
#include "runtime/format/PrintableText.h"
#include "runtime/report/Formats.h"

#include <map>

namespace stow {

namespace {

/// A name as the format quotes it, without control characters and cut where it is long.
std::string label(const std::string &name) { return quotedText(printableText(name, 120)); }

std::string_view colourOf(const PlannedStep &step) {
  return step.phase == StepPhase::Backward ? "#d55e00"
         : step.phase == StepPhase::Update ? "#009e73"
                                           : "#0072b2";
}

void addNodes(const GraphPlan &graph, const std::string &prefix, std::string &text) {
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    const PlannedStep &step = graph.steps[i];
    append(text, "    ", prefix, i, " [label=", label(concat(i, " ", step.name)), ", color=\"",
           colourOf(step), "\"", step.recomputes ? ", style=dashed" : "", "];\n");
  }
}

/// An edge from the last writer of each buffer to each later step that uses it.
void addEdges(const GraphPlan &graph, const std::string &prefix, std::string &text) {
  std::map<int64_t, size_t> writers;
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    const PlannedStep &step = graph.steps[i];
    for (int64_t number : step.reads) {
      auto writer = writers.find(number);
      if (writer == writers.end())
        continue; // state and inputs: they are there before the first step
      const PlannedBuffer &buffer = graph.buffers[number];
      const bool atPeak = buffer.begin <= graph.peakStep && graph.peakStep < buffer.end;
      append(text, "    ", prefix, writer->second, " -> ", prefix, i, " [label=\"",
             formatBytes(buffer.size), "\", tooltip=", label(buffer.name),
             atPeak ? ", style=bold" : "", "];\n");
    }
    for (int64_t number : step.writes)
      writers[number] = i;
  }
}

} // namespace

std::string toDot(const Plan &plan) {
  std::string text = "digraph plan {\n  label=" + label(plan.model) +
                     ";\n  node [shape=box, fontname=\"sans-serif\"];\n"
                     "  edge [fontname=\"sans-serif\", fontsize=9];\n";
  for (size_t g = 0; g < plan.graphs.size(); ++g) {
    const GraphPlan &graph = plan.graphs[g];
    const std::string prefix = concat("g", g, "_");
    append(text, "  subgraph cluster_", g, " {\n    label=", label(graph.name()), ";\n");
    addNodes(graph, prefix, text);
    addEdges(graph, prefix, text);
    text += "  }\n";
  }
  return text + "}\n";
}

} // namespace stow
