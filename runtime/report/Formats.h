// A plan in the formats of tools that people have. One file per format; docs/inspect.md shows them.
#pragma once

#include "runtime/format/Plan.h"

#include <span>
#include <string>
#include <string_view>

namespace stow {

/// Chrome's trace JSON, which ui.perfetto.dev opens: a process per graph with its commands as
/// slices, live bytes as counters and a flow from each first run to its recomputations. Commands of
/// unknown time take a microsecond.
std::string toPerfetto(const Plan &plan);
/// The same with a title for each graph in place of its role.
std::string toPerfetto(const Plan &plan, std::span<const std::string> titles);

/// Graphviz: a cluster per graph, commands as nodes, buffers as edges from each writer to the
/// readers and overwriters of what it wrote. What is live at the peak is drawn bold, recomputed
/// commands are dashed.
std::string toDot(const Plan &plan);

/// A value of --format.
struct PlanFormat {
  std::string_view name;
  std::string (*render)(const Plan &plan);
};

/// text, json and csv, as runtime/format/PlanReport.h writes them, and those above.
std::span<const PlanFormat> planFormatTable();

/// Throws Error(BadInput) for a format that another one or another program has taken the place of, and says which.
void refuseMovedFormat(std::string_view format);

} // namespace stow
