#include "runtime/report/Formats.h"

#include "runtime/base/Error.h"
#include "runtime/format/PlanReport.h"

#include <array>

namespace stow {

std::span<const PlanFormat> planFormatTable() {
  static constexpr std::array table = {
      PlanFormat{"text", [](const Plan &plan) { return renderText(plan, ReportOptions()); }},
      PlanFormat{"json", [](const Plan &plan) { return toJson(plan); }},
      PlanFormat{"csv", toCsv},
      PlanFormat{"perfetto", [](const Plan &plan) { return toPerfetto(plan); }},
      PlanFormat{"dot", toDot},
  };
  return table;
}

void refuseMovedFormat(std::string_view format) {
  if (format == "svg")
    throw Error::badInput(
        "--format=svg: the curve stands on the page of --format=html, with the plan of each point; "
        "--format=csv has its points for other charts");
  if (format == "memory-viz")
    throw Error::badInput("--format=memory-viz: PyTorch's snapshot is made of the JSON; after "
                          "--format=json -o plan.json, "
                          "python -m stowage.convert memory-viz plan.json plan.pickle makes it");
}

} // namespace stow
