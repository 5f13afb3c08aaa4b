#include "compiler/FrontierReport.h"

#include "compiler/Picture.h"
#include "runtime/base/Text.h"

#include <absl/strings/str_format.h>

namespace stow {
namespace {

std::string renderText(const Frontier &frontier) {
  const FrontierPoint &full = frontier.points.front();
  std::string text = "time against memory (costs: " + frontier.device + ")\n\n";
  text += absl::StrFormat("%10s %18s %8s %18s %12s %10s %10s  %s\n", "budget", "arena bytes",
                          "of full", "live peak bytes", "time ms", "extra", "bound", "method");
  for (const FrontierPoint &point : frontier.points)
    text += absl::StrFormat(
        "%9.1f%% %18d %7.1f%% %18d %12.3f %9.3f%% %9.3f%%  %s\n",
        percent(static_cast<double>(point.budgetBytes), static_cast<double>(full.arenaBytes)),
        point.arenaBytes,
        percent(static_cast<double>(point.arenaBytes), static_cast<double>(full.arenaBytes)),
        point.livePeakBytes, static_cast<double>(point.time) / 1e6,
        extraPercent(frontier, point.time), extraPercent(frontier, point.bound), point.method);
  text += "\nno plan takes less than " + formatBytesExact(frontier.lowerBound) + "\n";
  return text;
}

std::string renderCsv(const Frontier &frontier) {
  std::string text = "budget_bytes,arena_bytes,live_peak_bytes,time_ns,bound_ns,"
                     "extra_time_percent,method\n";
  for (const FrontierPoint &point : frontier.points)
    text += absl::StrFormat("%d,%d,%d,%d,%d,%.4f,%s\n", point.budgetBytes, point.arenaBytes,
                            point.livePeakBytes, point.time, point.bound,
                            extraPercent(frontier, point.time), point.method);
  return text;
}

} // namespace

std::string drawFrontierPage(const Frontier &frontier, const std::optional<Card> &card) {
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
    point["plan"] = data.add(at.plan,
                             absl::StrFormat("%s, %.0f %% of full, %.1f %% more time",
                                             formatBytes(at.arenaBytes),
                                             percent(static_cast<double>(at.arenaBytes), full),
                                             extraPercent(frontier, at.time)),
                             nullptr, card);
    points.push_back(std::move(point));
  }
  Json chart;
  chart["lower_bound"] = frontier.lowerBound;
  chart["device"] = frontier.device;
  chart["points"] = std::move(points);
  data.set("frontier", std::move(chart));
  return drawPage(data);
}

std::vector<std::string> frontierFormats() { return {"text", "csv", "html"}; }

std::string renderFrontier(const Frontier &frontier, const std::string &format,
                           const std::optional<Card> &card) {
  return format == "csv"    ? renderCsv(frontier)
         : format == "html" ? drawFrontierPage(frontier, card)
                            : renderText(frontier);
}

} // namespace stow
