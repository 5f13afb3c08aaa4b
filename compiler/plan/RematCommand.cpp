#include "compiler/plan/RematCommand.h"
#include "compiler/plan/ReadInput.h"
#include "ir/plan/schedule/Json.h"
#include "ir/plan/schedule/LowerBound.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/proofs/PhaseProgram.h"
#include "passes/solvers/schedule/search/Chain.h"
#include "passes/solvers/schedule/search/Segments.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Bytes.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

namespace stow {

namespace {

using namespace schedule;

struct Arguments {
  std::string input, output, method = "auto", format = "text";
  std::optional<ByteBudget> budget;
  bool frontier = false, prove = false;
  double effort = 1, proveSeconds = PlanOptions().proveSeconds;
};

std::string oneOf(const std::string &flag, const std::string &text,
                  std::initializer_list<const char *> known, const std::string &expected) {
  if (std::ranges::find(known, text) == known.end())
    throw Error::badInput("--" + flag + " is '" + text + "'; expected " + expected);
  return text;
}

/// Checks what the flags say together.
void checkArguments(const Arguments &arguments) {
  requireInput(arguments.input);
  if (!arguments.frontier && !arguments.budget)
    throw Error::badInput("no --memory-budget; write for example --memory-budget=70%");
  if (arguments.frontier && (arguments.budget || arguments.prove || arguments.method != "auto" ||
                             arguments.format != "text"))
    throw Error::badInput("--frontier plans every budget and prints CSV; leave out "
                          "--memory-budget, --prove, --method and --format");
}

void writeOutput(const std::string &path, const std::string &text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  writeFile(path, text);
}

const char *statusName(const PlanResult &result) {
  switch (result.status) {
  case Status::Optimal:
    return "optimal";
  case Status::Bounded:
    return "bounded";
  case Status::Infeasible:
    return "infeasible";
  case Status::NotFound:
    return "not found";
  }
  return "";
}

void printText(const Problem &problem, const PlanResult &result, double seconds) {
  const double least = static_cast<double>(result.leastTime);
  auto extra = [&](Cost time) {
    return percent(static_cast<double>(time - result.leastTime), least);
  };
  auto share = [&](Bytes bytes) {
    return percent(static_cast<double>(bytes), static_cast<double>(result.inputOrderPeak));
  };
  std::printf("problem      %s: %zu ops, %zu values\n", problem.name.c_str(), problem.ops.size(),
              problem.values.size());
  std::printf("input order  %s, time %lld\n", formatBytesExact(result.inputOrderPeak).c_str(),
              static_cast<long long>(result.leastTime));
  if (problem.costDenominator > 1)
    std::printf("times        in 1/%lld of the unit of the file's costs\n",
                static_cast<long long>(problem.costDenominator));
  std::printf("budget       %s, %.2f %%\n", formatBytesExact(result.budgetBytes).c_str(),
              share(result.budgetBytes));
  if (result.solution) {
    std::printf("peak         %s, %.2f %%\n", formatBytesExact(result.peakBytes).c_str(),
                share(result.peakBytes));
    std::printf("time         %lld, extra %.4f %% (%zu runs)\n",
                static_cast<long long>(result.time), extra(result.time),
                result.solution->runs.size());
  }
  if (result.cutBound)
    std::printf("cut bound    time %lld, extra %.4f %%\n", static_cast<long long>(*result.cutBound),
                extra(*result.cutBound));
  if (result.phaseBound)
    std::printf("phase bound  time %lld, extra %.4f %%\n",
                static_cast<long long>(*result.phaseBound), extra(*result.phaseBound));
  std::printf("peak bound   %s, %.2f %%\n", formatBytesExact(result.peakBound).c_str(),
              share(result.peakBound));
  if (result.status == Status::Bounded)
    std::printf("status       within %.4f %% of the bound\n", 100.0 * result.gap);
  else if (result.status == Status::Infeasible)
    std::printf("status       infeasible: no schedule has a peak below %s; smallest found %s\n",
                formatBytesExact(result.peakBound).c_str(),
                formatBytesExact(result.smallestPeak).c_str());
  else if (result.status == Status::NotFound)
    std::printf("status       not found; smallest peak found %s\n",
                formatBytesExact(result.smallestPeak).c_str());
  else
    std::printf("status       optimal\n");
  std::printf("seconds      %.3f\n", seconds);
}

void printJson(const Problem &problem, const PlanResult &result, double seconds) {
  auto optional = [](const std::optional<Cost> &cost) {
    return cost ? std::to_string(*cost) : std::string("null");
  };
  std::printf("{\"status\": \"%s\", \"budget_bytes\": %lld, \"input_order_peak_bytes\": %lld,\n",
              statusName(result), static_cast<long long>(result.budgetBytes),
              static_cast<long long>(result.inputOrderPeak));
  std::printf(" \"peak_bytes\": %s, \"time\": %s, \"least_time\": %lld,\n",
              result.solution ? std::to_string(result.peakBytes).c_str() : "null",
              result.solution ? std::to_string(result.time).c_str() : "null",
              static_cast<long long>(result.leastTime));
  std::printf(" \"cut_bound\": %s, \"phase_bound\": %s, \"peak_bound_bytes\": %lld,\n",
              optional(result.cutBound).c_str(), optional(result.phaseBound).c_str(),
              static_cast<long long>(result.peakBound));
  std::printf(" \"smallest_peak_bytes\": %s, \"gap\": %.9g, \"cost_denominator\": %lld,\n"
              " \"seconds\": %.3f}\n",
              result.solution ? "null" : std::to_string(result.smallestPeak).c_str(), result.gap,
              static_cast<long long>(problem.costDenominator), seconds);
}

std::string frontierTable(const Problem &problem, Planner &planner) {
  std::string text = "# " + problem.name + ": input order " +
                     formatBytesExact(planner.inputOrderPeak()) +
                     "\npeak_bytes,peak_percent,time,extra_percent\n";
  const double least = static_cast<double>(problem.leastTime());
  for (const FrontierRow &row : planner.frontier()) {
    char line[128];
    std::snprintf(
        line, sizeof line, "%lld,%.3f,%lld,%.4f\n", static_cast<long long>(row.peakBytes),
        percent(static_cast<double>(row.peakBytes), static_cast<double>(planner.inputOrderPeak())),
        static_cast<long long>(row.time), percent(static_cast<double>(row.time) - least, least));
    text += line;
  }
  return text;
}

/// Overrides the schedule of `result` by that of a named method.
void applyMethod(const std::string &method, double effort, const Problem &problem,
                 PlanResult &result) {
  std::optional<Solution> found;
  if (method == "sqrt") {
    found = planSegments(problem, effort);
  } else {
    const Graph graph(problem);
    std::optional<Chain> chain = asChain(graph);
    if (!chain)
      throw Error::badInput("--method=" + method +
                            " needs a chain (forward ops, then their backwards); use auto or sqrt");
    if (std::optional<Sequence> sequence = rotorSchedule(graph, *chain, result.budgetBytes))
      found = expand(problem, graph, *sequence, result.budgetBytes);
  }
  result.solution.reset();
  result.status = result.cutBound ? Status::NotFound : Status::Infeasible;
  if (!found)
    return;
  Solution &solution = *found;
  Replay replay = verify(problem, solution);
  if (replay.fault)
    throw Error::internal("--method=" + method + " made an illegal schedule: " + *replay.fault);
  result.smallestPeak = replay.peakBytes;
  if (replay.peakBytes > result.budgetBytes)
    return;
  result.solution = std::move(solution);
  result.time = replay.time;
  result.peakBytes = replay.peakBytes;
  result.gap =
      static_cast<double>(replay.time) / static_cast<double>(std::max<Cost>(result.bound(), 1)) - 1;
  result.status = replay.time <= result.bound() ? Status::Optimal : Status::Bounded;
}

int remat(const Arguments &arguments) {
  checkArguments(arguments);
  const Problem problem = parse(readInput(arguments.input), inputName(arguments.input));
  PlanOptions options;
  options.effort = arguments.method == "auto" ? arguments.effort : 0;
  options.prove = arguments.prove;
  options.proveSeconds = arguments.proveSeconds;
  if (!arguments.output.empty() && arguments.output != "-")
    checkWritable(arguments.output);
  const auto start = std::chrono::steady_clock::now();
  Planner planner(problem, options);
  if (arguments.frontier) {
    writeOutput(arguments.output.empty() ? "-" : arguments.output, frontierTable(problem, planner));
    return 0;
  }
  const Bytes budget = arguments.budget->bytes
                           ? *arguments.budget->bytes
                           : percentOf(planner.inputOrderPeak(), *arguments.budget->peakPercent);
  PlanResult result = planner.plan(budget);
  if (arguments.method != "auto" && arguments.method != "cut")
    applyMethod(arguments.method, arguments.effort, problem, result);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool scheduleAlone = result.solution && arguments.output == "-";
  if (arguments.format == "json" && !scheduleAlone)
    printJson(problem, result, seconds);
  else if (!scheduleAlone)
    printText(problem, result, seconds);
  if (!result.solution) {
    std::fflush(stdout);
    std::fputs(result.status == Status::Infeasible
                   ? "error: no schedule fits the budget\n"
                   : "error: no schedule within the budget was found; raise --effort or "
                     "--memory-budget\n",
               stderr);
    return static_cast<int>(ErrorKind::Infeasible);
  }
  if (!arguments.output.empty())
    writeOutput(arguments.output, printSolution(problem, *result.solution));
  return 0;
}

double parseUpTo(const std::string &flag, const std::string &text, double most) {
  const double number = parseRate(flag, text);
  if (number > most)
    throw Error::badInput("--" + flag + ": expected at most " + std::to_string(int64_t(most)) +
                          ", found '" + text + "'");
  return number;
}

} // namespace

std::function<int()> rematCommand(CommandLine &line) {
  auto made = std::make_shared<Arguments>();
  Arguments &arguments = *made;
  line.words([&](const std::string &word) { takeInput(arguments.input, word); });
  line.value("memory-budget", "B",
             "bytes (2GiB, 900MB, 1048576) or a share of the input order's peak (70%)",
             [&](const std::string &text) { arguments.budget = parseByteBudget(text); });
  line.flag("frontier", "the whole time/memory frontier instead of one budget",
            [&] { arguments.frontier = true; });
  line.optionalValue("prove", "SECONDS",
                     "spend about so much processor time (default: 60) on tighter bounds: phase "
                     "programs, if built with CBC",
                     [&](const std::string &text) {
                       arguments.prove = true;
                       if (!text.empty())
                         arguments.proveSeconds = parseUpTo("prove", text, 1e6);
                     });
  line.value("method", "M",
             "auto (default), cut (no search), sqrt (Chen's segments), rotor (chains; revolve is "
             "another name)",
             [&](const std::string &text) {
               arguments.method = oneOf("method", text, {"auto", "cut", "sqrt", "rotor", "revolve"},
                                        "auto, cut, sqrt, rotor or revolve");
             });
  line.value(
      "effort", "X",
      "multiplies the number of search moves (default: 1); above 1 in powers of two, never worse",
      [&](const std::string &text) { arguments.effort = parseUpTo("effort", text, 1e6); });
  line.value("format", "F", "text (default) or json", [&](const std::string &text) {
    arguments.format = oneOf("format", text, {"text", "json"}, "text or json");
  });
  line.value("output,o", "FILE",
             "write the schedule (or the frontier); - is standard output, without the report",
             [&](const std::string &path) { arguments.output = path; });
  return [made] { return remat(*made); };
}

} // namespace stow
