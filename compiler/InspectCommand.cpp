// `stowage inspect`: the plan of a file, whatever kind of file: an executable (which is not run), a
// plan's JSON, or a model, which is planned now. With --times, what a run of it took as well.
#include "compiler/Commands.h"
#include "compiler/Picture.h"
#include "compiler/PlanFile.h"
#include "compiler/PlanSource.h"
#include "runtime/base/Error.h"

#include <memory>

namespace stow {
namespace {

struct Request {
  PlanSource source;
  ReportPlace place;
  std::optional<std::string> times;
};

int inspect(const CommandLine &line, const Request &request) {
  const std::vector<std::string> &files = request.source.files;
  if (files.empty())
    throw Error::badInput("no file given; expected a model, a plan's JSON, or what stowage compile "
                          "has written");
  if (files.size() > 1)
    throw Error::badInput("two files given: \"" + files[0] + "\" and \"" + files[1] + "\"");
  refuseIdleFlags(line, request.source);
  if (request.times && request.place.format != "html")
    throw Error::badInput("--times needs --format=html; the times as text or as a trace are what "
                          "./model train --profile prints and writes");
  const auto [plan, verdict] = judgedFromAny(files.front(), request.source.options);
  if (request.times)
    writeReport(drawTimes(plan, StepTimes::load(*request.times, plan),
                          verdict ? std::optional(verdict->card) : std::nullopt),
                request.place);
  else
    writePlan(plan, verdict, request.place);
  if (verdict)
    requireFit(*verdict, request.source.options.fit);
  return 0;
}

} // namespace

Run inspectCommand(CommandLine &line) {
  auto request = std::make_shared<Request>();
  addReportFlags(line, request->place, planFormats());
  line.value("times", "FILE",
             "of ./model train --profile=FILE: measured beside planned times; with html",
             [request](const std::string &path) { request->times = path; });
  addCardFlags(line, request->source.options);
  addPlanSource(line, request->source);
  return [&line, request] { return inspect(line, *request); };
}

} // namespace stow
