#include "compiler/FrontierReport.h"

#include "compiler/Picture.h"
#include "runtime/base/Text.h"

#include <absl/strings/str_cat.h>
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

constexpr const char *kColumns = "budget_bytes,arena_bytes,live_peak_bytes,time_ns,bound_ns,"
                                 "extra_time_percent,method";

/// The points' rows, each behind `prefix`.
std::string rowsOf(const Frontier &frontier, const std::string &prefix) {
  std::string text;
  for (const FrontierPoint &point : frontier.points)
    text += absl::StrFormat("%s%d,%d,%d,%d,%d,%.4f,%s\n", prefix, point.budgetBytes,
                            point.arenaBytes, point.livePeakBytes, point.time, point.bound,
                            extraPercent(frontier, point.time), point.method);
  return text;
}

std::string renderCsv(const Frontier &frontier) {
  return std::string(kColumns) + "\n" + rowsOf(frontier, "");
}

/// A record for each point.
void addRecords(Json &records, const FrontierOfDevices &of) {
  for (const FrontierPoint &point : of.frontier.points) {
    Json record;
    record["devices"] = of.devices;
    record["shard_state"] = of.shards;
    record["budget_bytes"] = point.budgetBytes;
    record["arena_bytes"] = point.arenaBytes;
    record["live_peak_bytes"] = point.livePeakBytes;
    record["time_ns"] = point.time;
    record["bound_ns"] = point.bound;
    record["extra_time_percent"] = extraPercent(of.frontier, point.time);
    record["method"] = point.method;
    records.push_back(std::move(record));
  }
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

std::vector<std::string> frontierFormats() { return {"text", "csv", "json", "html"}; }

std::string renderFrontiers(const std::vector<FrontierOfDevices> &all, const std::string &format) {
  if (format == "json") {
    Json records = Json::array();
    for (const FrontierOfDevices &one : all)
      addRecords(records, one);
    return dumpJsonLines(records) + "\n";
  }
  std::string text = format == "csv" ? absl::StrCat("devices,shard_state,", kColumns, "\n") : "";
  for (const auto &[devices, shards, frontier] : all)
    text += format == "csv" ? rowsOf(frontier, absl::StrCat(devices, ",", shards, ","))
                            : absl::StrCat(text.empty() ? "" : "\n", devices,
                                           devices == 1 ? " device" : " devices",
                                           ", in shards: ", shards, "\n", renderText(frontier));
  return text;
}

std::string renderFrontier(const Frontier &frontier, const std::string &format,
                           const std::optional<Card> &card) {
  return format == "csv"    ? renderCsv(frontier)
         : format == "html" ? drawFrontierPage(frontier, card)
                            : renderText(frontier);
}

} // namespace stow
