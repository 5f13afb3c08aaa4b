// The time/memory frontier as points, table, CSV and picture.
#include "compiler/Planning.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace stow {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char *pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// Time beyond running every op once, in percent of that.
double extra(const Frontier &frontier, schedule::Cost time) {
  auto least = static_cast<double>(frontier.points.front().time);
  return percent(static_cast<double>(time) - least, least);
}

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
        extra(frontier, point.time), extra(frontier, point.bound), point.method.c_str());
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
                   static_cast<long long>(point.bound), extra(frontier, point.time),
                   point.method.c_str());
  return text;
}

/// A step line: from one arena size to the next the time is that of the smaller one.
std::string renderSvg(const Frontier &frontier) {
  constexpr double left = 80, right = 620, top = 30, bottom = 350;
  const auto full = static_cast<double>(frontier.points.front().arenaBytes);
  double most = 1;
  for (const FrontierPoint &point : frontier.points)
    most = std::max(most, extra(frontier, point.time));
  auto x = [&](Bytes bytes) { return left + (right - left) * static_cast<double>(bytes) / full; };
  auto y = [&](double share) { return bottom - (bottom - top) * share / most; };
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"660\" height=\"410\" "
                     "font-family=\"sans-serif\" font-size=\"12\">\n"
                     "<rect width=\"660\" height=\"410\" fill=\"white\"/>\n";
  for (int i = 0; i <= 4; ++i) {
    double share = most * i / 4;
    Bytes bytes = static_cast<Bytes>(full * i / 4);
    text += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                   left, y(share), right, y(share));
    text += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.1f %%</text>\n", left - 6,
                   y(share) + 4, share);
    text += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x(bytes),
                   bottom + 18, formatBytes(bytes).c_str());
  }
  std::string path;
  for (size_t i = 0; i < frontier.points.size(); ++i) {
    const FrontierPoint &point = frontier.points[i];
    double height = y(extra(frontier, point.time));
    if (i > 0)
      path += format(" V%.1f", height);
    path += format("%s%.1f%s", i ? " H" : "M", x(point.arenaBytes),
                   i ? "" : format(" %.1f", height).c_str());
  }
  text += "<path d=\"" + path + "\" fill=\"none\" stroke=\"#1f6feb\" stroke-width=\"2\"/>\n";
  for (const FrontierPoint &point : frontier.points)
    text += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#1f6feb\"><title>%s, %.3f %% "
                   "more time</title></circle>\n",
                   x(point.arenaBytes), y(extra(frontier, point.time)),
                   formatBytesExact(point.arenaBytes).c_str(), extra(frontier, point.time));
  double bound = x(frontier.lowerBound);
  text += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#c33\" "
                 "stroke-dasharray=\"4\"/>\n",
                 bound, top, bound, bottom);
  text += format("<text x=\"%.1f\" y=\"%.1f\" fill=\"#c33\">no plan below %s</text>\n", bound + 4,
                 top + 12, formatBytes(frontier.lowerBound).c_str());
  text += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">arena</text>\n",
                 (left + right) / 2, bottom + 40);
  text += format("<text x=\"16\" y=\"%.1f\">extra time</text>\n</svg>\n", top - 12);
  return text;
}

} // namespace

Frontier findFrontier(BudgetPlanner &planner, const CostModel &costs, double stepPercent) {
  Frontier frontier;
  frontier.device = costs.device;
  frontier.lowerBound = planner.lowerBound();
  const Bytes full = planner.keepAll().arenaBytes;
  auto add = [&](Bytes budget, const StepChoice &choice) {
    schedule::Cost bound = planner.timeBound(budget);
    if (!frontier.points.empty()) // what more memory does not allow, less does not either
      bound = std::max(bound, frontier.points.back().bound);
    frontier.points.push_back(
        {budget, choice.arenaBytes, choice.livePeakBytes, choice.time, bound, choice.method});
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
  return frontier;
}

std::string renderFrontier(const Frontier &frontier, const std::string &format) {
  if (format == "text")
    return renderText(frontier);
  if (format == "csv")
    return renderCsv(frontier);
  if (format == "svg")
    return renderSvg(frontier);
  throw Error::badInput("unknown format \"" + format + "\"; known are text, csv, svg");
}

} // namespace stow
