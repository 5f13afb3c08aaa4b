// The time/memory frontier as points, table, CSV and picture.
#include "compiler/Picture.h"
#include "compiler/Pipeline.h"
#include "compiler/Planning.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <tuple>

namespace stow {
namespace {

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

} // namespace

std::string format(const char *pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

double extraPercent(const Frontier &frontier, schedule::Cost time) {
  auto least = static_cast<double>(frontier.points.front().time);
  return percent(static_cast<double>(time) - least, least);
}

namespace {

std::string renderText(const Frontier &frontier) {
  const FrontierPoint &full = frontier.points.front();
  std::string text = "time against memory (costs: " + frontier.device + ")\n\n";
  text += format("%10s %18s %8s %18s %12s %10s %10s  %s\n", "budget", "arena bytes", "of full",
                 "live peak bytes", "time ms", "extra", "bound", "method");
  for (const FrontierPoint &point : frontier.points)
    text += format(
        "%9.1f%% %18lld %7.1f%% %18lld %12.3f %9.3f%% %9.3f%%  %s\n",
        percent(static_cast<double>(point.budgetBytes), static_cast<double>(full.arenaBytes)),
        static_cast<long long>(point.arenaBytes),
        percent(static_cast<double>(point.arenaBytes), static_cast<double>(full.arenaBytes)),
        static_cast<long long>(point.livePeakBytes), static_cast<double>(point.time) / 1e6,
        extraPercent(frontier, point.time), extraPercent(frontier, point.bound),
        point.method.c_str());
  text += "\nno plan takes less than " + formatBytesExact(frontier.lowerBound) + "\n";
  return text;
}

std::string renderCsv(const Frontier &frontier) {
  std::string text = "budget_bytes,arena_bytes,live_peak_bytes,time_ns,bound_ns,"
                     "extra_time_percent,method\n";
  for (const FrontierPoint &point : frontier.points)
    text += format("%lld,%lld,%lld,%lld,%lld,%.4f,%s\n", static_cast<long long>(point.budgetBytes),
                   static_cast<long long>(point.arenaBytes),
                   static_cast<long long>(point.livePeakBytes), static_cast<long long>(point.time),
                   static_cast<long long>(point.bound), extraPercent(frontier, point.time),
                   point.method.c_str());
  return text;
}

/// Without points that another one takes less time than, and no larger arena. Where things are
/// joined and sliced, each order saves copies of its own, so that a plan for less memory may do
/// both.
void dropDominated(std::vector<FrontierPoint> &points) {
  std::sort(points.begin() + 1, points.end(), [](const auto &a, const auto &b) {
    return std::tie(b.arenaBytes, a.time, b.budgetBytes) <
           std::tie(a.arenaBytes, b.time, a.budgetBytes);
  });
  const std::vector<FrontierPoint> all = points;
  const auto isDominated = [&](const FrontierPoint &point) {
    return std::any_of(all.begin(), all.end(), [&](const FrontierPoint &other) {
      return other.arenaBytes <= point.arenaBytes && other.time < point.time;
    });
  };
  points.erase(std::remove_if(points.begin() + 1, points.end(), isDominated), points.end());
  const auto isSame = [](const FrontierPoint &a, const FrontierPoint &b) {
    return a.arenaBytes == b.arenaBytes && a.time == b.time;
  };
  points.erase(std::unique(points.begin() + 1, points.end(), isSame), points.end());
}

} // namespace

std::string drawFrontierPage(const Frontier &frontier) {
  PictureData data;
  Json points = Json::array();
  const double full = static_cast<double>(frontier.points.front().arenaBytes);
  for (const FrontierPoint &at : frontier.points) {
    Json point;
    point["budget"] = at.budgetBytes;
    point["arena"] = at.arenaBytes;
    point["live_peak"] = at.livePeakBytes;
    point["seconds"] = static_cast<double>(at.time) * 1e-9;
    point["bound_seconds"] = static_cast<double>(at.bound) * 1e-9;
    point["method"] = at.method;
    point["plan"] = data.add(at.plan, format("%s, %.0f %% of full, %.1f %% more time",
                                             formatBytes(at.arenaBytes).c_str(),
                                             percent(static_cast<double>(at.arenaBytes), full),
                                             extraPercent(frontier, at.time)));
    points.push_back(std::move(point));
  }
  Json chart;
  chart["lower_bound"] = frontier.lowerBound;
  chart["device"] = frontier.device;
  chart["points"] = std::move(points);
  data.set("frontier", std::move(chart));
  return drawPage(data);
}

Frontier findFrontier(BudgetPlanner &planner, const CostModel &costs, double stepPercent,
                      KeepPlans keep) {
  Frontier frontier;
  frontier.device = costs.device;
  frontier.lowerBound = planner.lowerBound();
  const Bytes full = planner.keepAll().arenaBytes;
  const auto least = static_cast<double>(planner.keepAll().time);
  auto add = [&](Bytes budget, const StepChoice &choice) {
    schedule::Cost bound = planner.timeBound(budget);
    if (!frontier.points.empty()) // what more memory does not allow, less does not either
      bound = std::max(bound, frontier.points.back().bound);
    FrontierPoint point{
        budget, choice.arenaBytes, choice.livePeakBytes, choice.time, bound, choice.method, Plan()};
    if (keep == KeepPlans::Yes) {
      point.plan = planOf(*choice.placed, costs);
      point.plan.withoutRecomputeBytes = full;
      point.plan.extraTimeBound = percent(static_cast<double>(bound) - least, least) / 100;
    }
    frontier.points.push_back(std::move(point));
  };
  for (int i = 0; 100 - stepPercent * i > 0; ++i) {
    const Bytes budget = schedule::percentOf(full, 100 - stepPercent * i);
    std::optional<StepChoice> choice = planner.plan(budget);
    if (!choice)
      break;
    if (!frontier.points.empty() && frontier.points.back().arenaBytes == choice->arenaBytes)
      continue; // an earlier budget gave the same plan
    add(budget, *choice);
  }
  const StepChoice &smallest = planner.smallest();
  if (frontier.points.empty() || smallest.arenaBytes < frontier.points.back().arenaBytes)
    if (std::optional<StepChoice> choice = planner.plan(smallest.arenaBytes))
      add(smallest.arenaBytes, *choice);
  dropDominated(frontier.points);
  return frontier;
}

std::string renderFrontier(const Frontier &frontier, const std::string &format) {
  if (format == "text")
    return renderText(frontier);
  if (format == "csv")
    return renderCsv(frontier);
  if (format == "svg")
    return drawFrontier(frontier);
  if (format == "html")
    return drawFrontierPage(frontier);
  throw Error::badInput("unknown format \"" + format + "\"; known are text, csv, svg, html");
}

} // namespace stow
