#include "runtime/report/Formats.h"

#include "runtime/format/PlanReport.h"

#include <array>

namespace stow {

std::span<const PlanFormat> planFormatTable() {
  static constexpr std::array table = {
      PlanFormat{"text", [](const Plan &plan) { return renderText(plan, ReportOptions()); }},
      PlanFormat{"json", [](const Plan &plan) { return toJson(plan); }},
      PlanFormat{"csv", toCsv},
      PlanFormat{"perfetto", [](const Plan &plan) { return toPerfetto(plan); }},
      PlanFormat{"memory-viz", toMemoryViz},
      PlanFormat{"dot", toDot},
  };
  return table;
}

} // namespace stow
