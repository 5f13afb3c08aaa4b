#include "compiler/plan/RematLanes.h"
#include "compiler/plan/RematOutput.h"

#include "passes/solvers/schedule/lanes/PlanLanes.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace stow {

namespace {

using namespace schedule;

/// As large as slow memory can be said to be.
constexpr Bytes kUnlimited = int64_t(1) << 56;

/// `bandwidth` bytes per unit of the file as integers: to nine decimals, or as many as fit.
Link linkOf(double bandwidth, Cost denominator) {
  constexpr double most = 1e15;
  Link link;
  link.perCost = denominator;
  double bytes = bandwidth;
  for (int i = 0; i < 9 && bytes != std::floor(bytes) && bytes < most / 10 &&
                  link.perCost < static_cast<Cost>(most / 10);
       ++i) {
    bytes *= 10;
    link.perCost *= 10;
  }
  link.bandwidthBytes = std::llround(std::min(bytes, most));
  if (link.bandwidthBytes <= 0)
    throw Error::badInput(absl::StrCat("--bandwidth: expected at least ",
                                       1 / static_cast<double>(link.perCost),
                                       " bytes per unit of the file's costs, found ", bandwidth));
  const int64_t common = std::gcd(link.bandwidthBytes, link.perCost);
  link.bandwidthBytes /= common;
  link.perCost /= common;
  return link;
}

std::string laneText(const Link &link) {
  return absl::StrCat(link.bandwidthBytes, " bytes in ", link.perCost, ", latency ", link.latency);
}

/// `peakWithinTime`: no schedule that takes no longer has a smaller peak; if there is a solution.
void printText(const Problem &problem, const Lanes &lanes, const LanePlanResult &result,
               Bytes peakWithinTime, double seconds) {
  auto extra = [&](Cost time) {
    return percent(static_cast<double>(time - result.leastTime),
                   static_cast<double>(result.leastTime));
  };
  auto share = [&](Bytes bytes) {
    return percent(static_cast<double>(bytes), static_cast<double>(result.inputOrderPeak));
  };
  absl::PrintF("problem      %s: %d ops, %d values\n", problem.name, problem.ops.size(),
               problem.values.size());
  absl::PrintF("input order  %s, time %d\n", formatBytesExact(result.inputOrderPeak),
               result.leastTime);
  absl::PrintF("times        in 1/%d %s\n", problem.costDenominator, problem.costUnit);
  absl::PrintF("lane out     %s\n", laneText(lanes.out));
  absl::PrintF("lane in      %s\n", laneText(lanes.in));
  absl::PrintF("budget       %s, %.2f %%; slow memory %s\n", formatBytesExact(result.budgetBytes),
               share(result.budgetBytes),
               lanes.slowBytes >= kUnlimited ? "as asked" : formatBytesExact(lanes.slowBytes));
  if (result.solution) {
    absl::PrintF("peak         %s, %.2f %%; slow memory %s\n", formatBytesExact(result.peakBytes),
                 share(result.peakBytes), formatBytesExact(result.slowPeakBytes));
    absl::PrintF("travels      out %s, in %s\n", formatBytesExact(result.bytesOut),
                 formatBytesExact(result.bytesIn));
    absl::PrintF("copies       hidden %d, exposed %d\n", result.hidden, result.exposed);
    absl::PrintF(
        "time         %d, extra %.4f %% (recomputed %.4f %%, exposed %.4f %%)\n", result.time,
        extra(result.time), extra(result.computeTime),
        percent(static_cast<double>(result.exposed), static_cast<double>(result.leastTime)));
  }
  if (result.recomputeTime)
    absl::PrintF("recomputed   alone: time %d, extra %.4f %%\n", *result.recomputeTime,
                 extra(*result.recomputeTime));
  if (result.timeBound)
    absl::PrintF("time bound   %d, extra %.4f %%\n", *result.timeBound, extra(*result.timeBound));
  absl::PrintF("peak bound   %s, %.2f %%\n", formatBytesExact(result.peakBound),
               share(result.peakBound));
  if (result.solution)
    absl::PrintF("in that time %s, %.2f %%, at least\n", formatBytesExact(peakWithinTime),
                 share(peakWithinTime));
  if (result.status == Status::Bounded)
    absl::PrintF("status       within %.4f %% of the bound\n", 100.0 * result.gap);
  else if (result.status == Status::Infeasible)
    absl::PrintF("status       infeasible: no schedule with these memories has a peak below %s\n",
                 formatBytesExact(result.peakBound));
  else
    absl::PrintF("status       %s\n", nameOf(result.status));
  absl::PrintF("seconds      %.3f\n", seconds);
}

void printJson(const Problem &problem, const LanePlanResult &result, Bytes peakWithinTime,
               double seconds) {
  auto found = [&](int64_t number) { return result.solution ? absl::StrCat(number) : "null"; };
  auto optional = [](const std::optional<Cost> &cost) {
    return cost ? absl::StrCat(*cost) : "null";
  };
  absl::PrintF("{\"status\": \"%s\", \"budget_bytes\": %d, \"input_order_peak_bytes\": %d,\n",
               nameOf(result.status), result.budgetBytes, result.inputOrderPeak);
  absl::PrintF(
      " \"peak_bytes\": %s, \"slow_peak_bytes\": %s, \"bytes_out\": %s, \"bytes_in\": %s,\n",
      found(result.peakBytes), found(result.slowPeakBytes), found(result.bytesOut),
      found(result.bytesIn));
  absl::PrintF(" \"time\": %s, \"compute_time\": %s, \"hidden\": %s, \"exposed\": %s,\n",
               found(result.time), found(result.computeTime), found(result.hidden),
               found(result.exposed));
  absl::PrintF(" \"least_time\": %d, \"recompute_time\": %s, \"time_bound\": %s,\n",
               result.leastTime, optional(result.recomputeTime), optional(result.timeBound));
  absl::PrintF(" \"peak_bound_bytes\": %d, \"peak_bound_in_time_bytes\": %s, \"gap\": %.9g,\n"
               " \"cost_denominator\": %d, \"seconds\": %.3f}\n",
               result.peakBound, found(peakWithinTime), result.gap, problem.costDenominator,
               seconds);
}

} // namespace

std::optional<Lanes> lanesOf(const ProblemFile &file, const LaneFlags &flags) {
  std::optional<Lanes> lanes = file.lanes;
  if (!flags.any())
    return lanes;
  if (!lanes && !flags.bandwidth)
    throw Error::badInput("--latency and --slow-memory need lanes, which this file has not; write "
                          "for example --bandwidth=32, in bytes per unit of the file's costs");
  if (!lanes) {
    lanes.emplace();
    lanes->slowBytes = kUnlimited;
  }
  const Cost denominator = file.problem.costDenominator;
  for (Link *link : {&lanes->out, &lanes->in}) {
    const Cost latency = link->latency;
    if (flags.bandwidth)
      *link = linkOf(*flags.bandwidth, denominator);
    if (flags.latency && *flags.latency * static_cast<double>(denominator) > 0x1p56)
      throw Error::badInput(absl::StrCat("--latency: expected at most ",
                                         0x1p56 / static_cast<double>(denominator),
                                         " units of the file's costs, found ", *flags.latency));
    link->latency =
        flags.latency ? std::llround(*flags.latency * static_cast<double>(denominator)) : latency;
  }
  if (flags.slowBytes)
    lanes->slowBytes = *flags.slowBytes;
  check(file.problem, *lanes);
  return lanes;
}

int rematLanes(const Problem &problem, const Lanes &lanes, const LaneRequest &request) {
  const auto start = std::chrono::steady_clock::now();
  LanePlanner planner(problem, request.options);
  const Bytes budget = bytesOf(request.budget, planner.inputOrderPeak());
  const LanePlanResult result = planner.plan(budget, lanes);
  const Bytes peakWithinTime =
      result.solution ? planner.peakWithinTime(result, lanes) : result.peakBound;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool scheduleAlone = result.solution && request.output == "-";
  if (!scheduleAlone && request.json)
    printJson(problem, result, peakWithinTime, seconds);
  else if (!scheduleAlone)
    printText(problem, lanes, result, peakWithinTime, seconds);
  if (!result.solution) {
    std::fflush(stdout);
    std::fputs(result.status == Status::Infeasible
                   ? "error: no schedule fits the budget, with copies or without\n"
                   : "error: no schedule within the budget was found; raise --effort, "
                     "--slow-memory or --memory-budget\n",
               stderr);
    return static_cast<int>(ErrorKind::Infeasible);
  }
  if (!request.output.empty())
    writeOutput(request.output, printSolution(problem, lanes, *result.solution));
  return 0;
}

} // namespace stow
