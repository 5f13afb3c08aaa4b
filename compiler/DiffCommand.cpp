// `stowage diff`: two plans beside each other.
#include "compiler/Commands.h"
#include "compiler/Picture.h"
#include "compiler/PlanSource.h"
#include "runtime/base/Error.h"
#include "runtime/report/Diff.h"

#include <absl/strings/str_cat.h>
#include <filesystem>
#include <memory>

namespace stow {
namespace {

struct Request {
  PlanSource source;
  ReportPlace place;
  size_t rows = 20;
};

int diff(const CommandLine &line, const Request &request) {
  const std::vector<std::string> &files = request.source.files;
  if (files.size() != 2)
    throw Error::badInput(
        absl::StrCat("expected two files, models, plans or executables, found ", files.size()));
  refuseIdleFlags(line, request.source);
  const std::string &format = request.place.format;
  if (format != "html")
    refuseCard(request.source.options);
  const Plan before = planFromAny(files[0], request.source.options),
             after = planFromAny(files[1], request.source.options);
  auto name = [](const std::string &path) {
    return std::filesystem::path(path).filename().string();
  };
  const std::string first = name(files[0]), second = name(files[1]);
  auto page = [&] {
    const CompileOptions &options = request.source.options;
    return drawComparison({before, first, cardFromAny(files[0], options)},
                          {after, second, cardFromAny(files[1], options)});
  };
  writeReport(format == "json"   ? differenceToJson(before, after)
              : format == "html" ? page()
                                 : renderDifference(before, after, first, second, request.rows),
              request.place);
  return after.arenaBytes > before.arenaBytes ? 1 : 0;
}

} // namespace

Run diffCommand(CommandLine &line) {
  auto request = std::make_shared<Request>();
  addReportFlags(line, request->place, {"text", "json", "html"});
  line.value(
      "rows", "N", "buffers listed (default: 20)",
      [&rows = request->rows](const std::string &text) { rows = parseCount("rows", text, 0); });
  addCardFlag(line, request->source.options);
  addPlanSource(line, request->source);
  return [&line, request] { return diff(line, *request); };
}

} // namespace stow
