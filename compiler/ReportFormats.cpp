// The formats of a plan, and where reports go.
#include "compiler/Commands.h"
#include "compiler/Picture.h"
#include "compiler/ProgressLine.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Error.h"
#include "runtime/base/Names.h"
#include "runtime/base/Text.h"
#include "runtime/format/PlanJson.h"
#include "runtime/format/PlanReport.h"
#include "runtime/report/Formats.h"

#include <algorithm>
#include <cstdio>

namespace stow {
namespace {

/// Those of an executable, and the page for a browser.
const std::vector<PlanFormat> &allFormats() {
  static const std::vector<PlanFormat> all = [] {
    std::vector<PlanFormat> formats(planFormatTable().begin(), planFormatTable().end());
    formats.push_back({"html", [](const Plan &plan) { return drawPlan(plan, std::nullopt); }});
    return formats;
  }();
  return all;
}

} // namespace

void addOutputFlag(CommandLine &line, ReportPlace &place) {
  line.value("output,o", "FILE", "write there instead of to standard output",
             [&](const std::string &path) {
               checkWritable(path);
               place.path = path;
             });
}

void addReportFlags(CommandLine &line, ReportPlace &place,
                    const std::vector<std::string> &formats) {
  const std::string known = joined(formats);
  line.value("format", "NAME", known + " (default: text)", [&place, formats](auto &text) {
    refuseMovedFormat(text);
    place.format = formats[oneOf(text, formats, "format")];
  });
  addOutputFlag(line, place);
}

std::vector<std::string> planFormats() {
  std::vector<std::string> names;
  for (const PlanFormat &format : allFormats())
    names.emplace_back(format.name);
  return names;
}

void writeReport(const std::string &text, const ReportPlace &place) {
  endProgress();
  if (place.path.empty())
    std::fwrite(text.data(), 1, text.size(), stdout);
  else
    writeFile(place.path, text);
}

void writePlan(const Plan &plan, const std::optional<Verdict> &verdict, const ReportPlace &place) {
  if (verdict && place.format == "html") {
    writeReport(drawPlan(plan, verdict->card), place);
    return;
  }
  std::optional<std::string> text;
  if (verdict)
    text = renderJudged(plan, *verdict, place.format, ReportOptions());
  writeReport(text ? *text
                   : std::ranges::find(allFormats(), place.format, &PlanFormat::name)->render(plan),
              place);
}

} // namespace stow
