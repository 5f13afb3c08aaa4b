// `stowage explain`: questions to a plan, answered in words.
#include "compiler/Commands.h"
#include "compiler/Pipeline.h"
#include "compiler/PlanFile.h"
#include "compiler/PlanSource.h"
#include "runtime/base/Error.h"
#include "runtime/report/Explain.h"
#include "runtime/report/Remedies.h"
#include "runtime/report/TextTable.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <memory>

namespace stow {
namespace {

struct Questions {
  std::optional<std::string> at, buffer;
  std::optional<Bytes> below;
  size_t rows = 10;
};

/// The model planned for half the threads, where scratch is a tenth of the arena: libraries sum a
/// weight's gradient in a copy for each thread.
std::optional<Remedy> halfTheThreads(const std::string &path, const CompileOptions &given,
                                     const Plan &plan) {
  CompileOptions options = given;
  options.modelPath = path;
  finishOptions(options);
  const int64_t threads = options.threads;
  if (threads < 2 || scratchAtPeak(plan) * 10 < plan.arenaBytes)
    return std::nullopt;
  options.threads /= 2;
  const Bytes gain = plan.arenaBytes - planFromAny(path, options).arenaBytes;
  if (gain <= 0)
    return std::nullopt;
  return Remedy{
      gain, absl::StrCat("half the threads: --threads=", options.threads, " instead of ", threads),
      chooseBackend(options)->sumsDependOnThreads() ? Changes::LastBits : Changes::Nothing};
}

std::string otherWays(const Plan &plan, std::optional<Remedy> fewerThreads = std::nullopt) {
  std::vector<Remedy> list = remediesOf(plan);
  if (fewerThreads)
    list.push_back(std::move(*fewerThreads));
  if (list.empty())
    return "";
  sortRemedies(list);
  return "\nother ways to less, by what they gain:\n" + renderRemedies(list);
}

/// A model can be planned again within the limit: that is no estimate. Throws Error(Infeasible)
/// STOW1001, with remedies, when no plan fits.
std::string planBelow(const std::string &path, CompileOptions options, const Plan &now,
                      const Questions &questions) {
  const std::string flag = absl::StrCat("--memory-budget=", *questions.below);
  options.inSegments = false;
  options.recompute.reset();
  options.memoryBudget = parseByteBudget(std::to_string(*questions.below));
  const Plan plan = planFromAny(path, options);
  std::string text = flag + " takes " + formatBytesExact(plan.arenaBytes) + " instead of " +
                     formatBytesExact(now.arenaBytes);
  if (now.stepSeconds > 0)
    text += ", and a step " + formatSeconds(plan.stepSeconds) + " instead of " +
            formatSeconds(now.stepSeconds) + " (" + plan.costSource + ")";
  return text + ".\n" + explainRecomputation(plan, questions.rows);
}

std::string answer(const std::string &path, const CompileOptions &options, const Plan &plan,
                   const Questions &questions) {
  if (questions.buffer)
    return explainBuffer(plan, *questions.buffer, questions.rows);
  if (questions.below) {
    if (plan.arenaBytes <= *questions.below || !isModelFile(path))
      return absl::StrCat(explainSavings(plan, questions.below, questions.rows),
                          plan.arenaBytes <= *questions.below
                              ? ""
                              : absl::StrCat("stowage plan MODEL --memory-budget=",
                                             *questions.below, " decides it.\n", otherWays(plan)));
    return planBelow(path, options, plan, questions) + otherWays(plan);
  }
  const std::string moment =
      explainMoment(plan, findMoment(plan, questions.at.value_or("peak")), questions.rows);
  if (questions.at)
    return moment;
  return moment + "\n" + explainRecomputation(plan, questions.rows) + "\n" +
         explainSavings(plan, std::nullopt, std::min<size_t>(questions.rows, 5)) +
         "--memory-budget=BYTES asks for less, --below=BYTES says what that takes.\n" +
         otherWays(plan, isModelFile(path) ? halfTheThreads(path, options, plan) : std::nullopt);
}

struct Request {
  PlanSource source;
  ReportPlace place;
  Questions questions;
};

int explain(const CommandLine &line, const Request &request) {
  const Questions &questions = request.questions;
  if (questions.at.has_value() + questions.buffer.has_value() + questions.below.has_value() > 1)
    throw Error::badInput("--at, --buffer and --below are questions of their own; ask one");
  const std::vector<std::string> &files = request.source.files;
  if (files.size() != 1)
    throw Error::badInput(
        absl::StrCat("expected one file, a model, a plan or an executable, found ", files.size()));
  refuseIdleFlags(line, request.source);
  const Plan plan = planFromAny(files[0], request.source.options);
  writeReport(answer(files[0], request.source.options, plan, questions), request.place);
  return 0;
}

} // namespace

Run explainCommand(CommandLine &line) {
  auto request = std::make_shared<Request>();
  Questions &questions = request->questions;
  line.value("at", "MOMENT",
             "peak, the number of a command, a time (1.5ms), or part of a node's name",
             [&](const std::string &text) { questions.at = text; });
  line.value("buffer", "NAME", "a buffer, or part of the name of a node or module",
             [&](const std::string &text) { questions.buffer = text; });
  line.value("below", "BYTES", "what it would take to need no more than that",
             [&](const std::string &text) { questions.below = parseBytes(text); });
  line.value("rows", "N", "lines of each list (default: 10)",
             [&](const std::string &text) { questions.rows = parseCount("rows", text, 1); });
  addOutputFlag(line, request->place);
  addPlanSource(line, request->source);
  return [&line, request] { return explain(line, *request); };
}

} // namespace stow
