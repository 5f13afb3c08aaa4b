#include "compiler/plan/RematCommand.h"
#include "compiler/plan/ReadInput.h"
#include "compiler/plan/RematLanes.h"
#include "compiler/plan/RematOutput.h"
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
#include "runtime/base/Names.h"
#include "runtime/base/Text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>

namespace stow {

namespace {

using namespace schedule;

struct Arguments {
  std::string input, output, method = "auto", format = "text";
  std::optional<ByteBudget> budget;
  bool frontier = false, prove = false;
  double effort = 1, proveSeconds = PlanOptions().proveSeconds;
  LaneFlags lanes;
};

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

/// What there is without slow memory only.
void checkForLanes(const Arguments &arguments) {
  if (arguments.frontier || arguments.prove || arguments.method != "auto")
    throw Error::badInput("--frontier, --prove and --method plan without slow memory; leave them "
                          "out, or the lanes");
}

void printText(const Problem &problem, const PlanResult &result, double seconds) {
  const double least = static_cast<double>(result.leastTime);
  auto extra = [&](Cost time) {
    return percent(static_cast<double>(time - result.leastTime), least);
  };
  auto share = [&](Bytes bytes) {
    return percent(static_cast<double>(bytes), static_cast<double>(result.inputOrderPeak));
  };
  absl::PrintF("problem      %s: %d ops, %d values\n", problem.name, problem.ops.size(),
               problem.values.size());
  absl::PrintF("input order  %s, time %d\n", formatBytesExact(result.inputOrderPeak),
               result.leastTime);
  if (problem.costDenominator > 1)
    absl::PrintF("times        in 1/%d of the unit of the file's costs\n", problem.costDenominator);
  absl::PrintF("budget       %s, %.2f %%\n", formatBytesExact(result.budgetBytes),
               share(result.budgetBytes));
  if (result.solution) {
    absl::PrintF("peak         %s, %.2f %%\n", formatBytesExact(result.peakBytes),
                 share(result.peakBytes));
    absl::PrintF("time         %d, extra %.4f %% (%d runs)\n", result.time, extra(result.time),
                 result.solution->runs.size());
  }
  if (result.cutBound)
    absl::PrintF("cut bound    time %d, extra %.4f %%\n", *result.cutBound,
                 extra(*result.cutBound));
  if (result.phaseBound)
    absl::PrintF("phase bound  time %d, extra %.4f %%\n", *result.phaseBound,
                 extra(*result.phaseBound));
  absl::PrintF("peak bound   %s, %.2f %%\n", formatBytesExact(result.peakBound),
               share(result.peakBound));
  if (result.status == Status::Bounded)
    absl::PrintF("status       within %.4f %% of the bound\n", 100.0 * result.gap);
  else if (result.status == Status::Infeasible)
    absl::PrintF("status       infeasible: no schedule has a peak below %s; smallest found %s\n",
                 formatBytesExact(result.peakBound), formatBytesExact(result.smallestPeak));
  else if (result.status == Status::NotFound)
    absl::PrintF("status       not found; smallest peak found %s\n",
                 formatBytesExact(result.smallestPeak));
  else
    absl::PrintF("status       optimal\n");
  absl::PrintF("seconds      %.3f\n", seconds);
}

void printJson(const Problem &problem, const PlanResult &result, double seconds) {
  auto optional = [](const std::optional<Cost> &cost) {
    return cost ? absl::StrCat(*cost) : "null";
  };
  absl::PrintF("{\"status\": \"%s\", \"budget_bytes\": %d, \"input_order_peak_bytes\": %d,\n",
               nameOf(result.status), result.budgetBytes, result.inputOrderPeak);
  absl::PrintF(" \"peak_bytes\": %s, \"time\": %s, \"least_time\": %d,\n",
               result.solution ? absl::StrCat(result.peakBytes) : "null",
               result.solution ? absl::StrCat(result.time) : "null", result.leastTime);
  absl::PrintF(" \"cut_bound\": %s, \"phase_bound\": %s, \"peak_bound_bytes\": %d,\n",
               optional(result.cutBound), optional(result.phaseBound), result.peakBound);
  absl::PrintF(" \"smallest_peak_bytes\": %s, \"gap\": %.9g, \"cost_denominator\": %d,\n"
               " \"seconds\": %.3f}\n",
               result.solution ? "null" : absl::StrCat(result.smallestPeak), result.gap,
               problem.costDenominator, seconds);
}

std::string frontierTable(const Problem &problem, Planner &planner) {
  std::string text = "# " + problem.name + ": input order " +
                     formatBytesExact(planner.inputOrderPeak()) +
                     "\npeak_bytes,peak_percent,time,extra_percent\n";
  const double least = static_cast<double>(problem.leastTime());
  for (const FrontierRow &row : planner.frontier()) {
    absl::StrAppendFormat(
        &text, "%d,%.3f,%d,%.4f\n", row.peakBytes,
        percent(static_cast<double>(row.peakBytes), static_cast<double>(planner.inputOrderPeak())),
        row.time, percent(static_cast<double>(row.time) - least, least));
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
  const ProblemFile file = parseFile(readInput(arguments.input), inputName(arguments.input));
  const Problem &problem = file.problem;
  const std::optional<Lanes> lanes = lanesOf(file, arguments.lanes);
  if (lanes)
    checkForLanes(arguments);
  PlanOptions options;
  options.effort = arguments.method == "auto" ? arguments.effort : 0;
  options.prove = arguments.prove;
  options.proveSeconds = arguments.proveSeconds;
  if (!arguments.output.empty() && arguments.output != "-")
    checkWritable(arguments.output);
  if (lanes)
    return rematLanes(problem, *lanes,
                      {*arguments.budget, options, arguments.format == "json", arguments.output});
  const auto start = std::chrono::steady_clock::now();
  Planner planner(problem, options);
  if (arguments.frontier) {
    writeOutput(arguments.output.empty() ? "-" : arguments.output, frontierTable(problem, planner));
    return 0;
  }
  const Bytes budget = bytesOf(*arguments.budget, planner.inputOrderPeak());
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
    throw Error::badInput(
        absl::StrCat("--", flag, ": expected at most ", int64_t(most), ", found '", text, "'"));
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
               const std::vector<std::string> known = {"auto", "cut", "sqrt", "rotor", "revolve"};
               arguments.method = known[oneOf(text, known, "method", "--method")];
             });
  line.value(
      "effort", "X",
      "multiplies the number of search moves (default: 1); above 1 in powers of two, never worse",
      [&](const std::string &text) { arguments.effort = parseUpTo("effort", text, 1e6); });
  line.value("bandwidth", "X",
             "slow memory beside the arena: bytes that are copied, either way, per unit of the "
             "file's costs",
             [&](const std::string &text) {
               arguments.lanes.bandwidth = parseUpTo("bandwidth", text, 1e15);
             });
  line.value(
      "latency", "X", "of every copy, in units of the file's costs (default: 0)",
      [&](const std::string &text) { arguments.lanes.latency = parseUpTo("latency", text, 1e9); });
  line.value("slow-memory", "SIZE", "its capacity (default: as much as it takes)",
             [&](const std::string &text) { arguments.lanes.slowBytes = parseBytes(text); });
  line.value("format", "F", "text (default) or json", [&](const std::string &text) {
    arguments.format = oneOf(text, {"text", "json"}, "format", "--format") == 0 ? "text" : "json";
  });
  line.value("output,o", "FILE",
             "write the schedule (or the frontier); - is standard output, without the report",
             [&](const std::string &path) { arguments.output = path; });
  return [made] { return remat(*made); };
}

} // namespace stow
