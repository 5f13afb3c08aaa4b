#include "compiler/StepTimes.h"

#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Json.h"
#include "runtime/format/PrintableText.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <algorithm>
#include <cmath>
#include <filesystem>

namespace stow {
namespace {

constexpr size_t shownName = 120;

std::string quoted(const std::string &name) { return "\"" + printableText(name, shownName) + "\""; }

std::string milliseconds(double ms) { return ms > 0 ? absl::StrFormat("%.6g ms", ms) : "no time"; }

/// A time per step, in the file in milliseconds.
double secondsOf(const JsonNode &node, const char *key) {
  const double ms = node.number(key);
  if (ms < 0)
    node.fail(key, "must not be below zero");
  return ms / 1e3;
}

/// Says why the profile is of another plan.
[[noreturn]] void refuse(const std::string &path, const std::string &difference) {
  throw Error::badInput("profile \"" + path + "\" is not of this plan: " + difference +
                        "; give the executable that was profiled, or its plan");
}

const GraphPlan &graphOf(const Plan &plan, const std::string &name, const std::string &path) {
  std::string known;
  for (const GraphPlan &graph : plan.graphs) {
    if (graph.name() == name)
      return graph;
    known += (known.empty() ? "" : ", ") + graph.name();
  }
  refuse(path, "it is of graph " + quoted(name) + ", the plan has " + known);
}

/// A command of the profile against the step in its place. The name tells another model or budget,
/// the planned time another batch or other costs.
void checkStep(const JsonNode &command, const PlannedStep &step, const std::string &number,
               const std::string &path) {
  const std::string node = command.text("name");
  const std::string name = command.text("kind") + (node.empty() ? "" : " of " + node);
  if (name != step.name)
    refuse(path, "its command " + number + " is " + quoted(name) + ", that of the plan is " +
                     quoted(step.name));
  const double planned = command.has("planned_ms") ? command.number("planned_ms") : 0;
  if (std::abs(planned - 1e3 * step.seconds) > 1e-9 * planned)
    refuse(path, "its command " + number + ", " + quoted(name) + ", was planned with " +
                     milliseconds(planned) + ", in the plan with " +
                     milliseconds(1e3 * step.seconds));
}

} // namespace

StepTimes StepTimes::load(const std::string &path, const Plan &plan) {
  if (!std::filesystem::exists(path))
    throw Error::badInput("cannot read profile \"" + path +
                          "\"; ./model train --data=FILE --profile=" + path + " writes it");
  Json json = parseJson(readInputFile(path), "profile " + path);
  // A step over several batches has two graphs; the last is the one that ends it. Of several shapes it is that of the largest.
  if (json.is_object() && json.contains("graphs") && json["graphs"].is_array() &&
      !json["graphs"].empty())
    json = Json(json["graphs"].back());
  if (!json.contains("graph") || !json.contains("commands"))
    throw Error::badInput("\"" + path +
                          "\" is no profile; expected JSON as ./model train --profile=FILE writes "
                          "it without --profile-format");
  const JsonNode node(json, "profile " + path);
  StepTimes times;
  times.graph = node.text("graph");
  times.threads = node.count("threads");
  times.steps = node.count("steps");
  const GraphPlan &graph = graphOf(plan, times.graph, path);
  if (times.steps == 0)
    throw Error::badInput("profile \"" + path +
                          "\" has no step after those to warm up; raise --steps");
  times.inputSeconds = secondsOf(node, "input_ms");
  times.restSeconds = secondsOf(node, "rest_ms");
  const size_t count = node.at("commands").value().size();
  if (count != graph.steps.size())
    refuse(path, absl::StrCat("it has ", count, " commands, the plan's graph ",
                              quoted(graph.name()), " has ", graph.steps.size()));
  node.forEach("commands", [&](const JsonNode &command) {
    const size_t number = times.seconds.size();
    checkStep(command, graph.steps[number], std::to_string(number), path);
    times.seconds.push_back(secondsOf(command, "ms"));
    times.leastSeconds.push_back(secondsOf(command, "least_ms"));
    times.processorSeconds.push_back(secondsOf(command, "processor_ms"));
  });
  return times;
}

} // namespace stow
