#include "runtime/report/Diff.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Json.h"
#include "runtime/format/PlanReport.h"
#include "runtime/report/TextTable.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stow {

namespace {

using Key = std::pair<std::string, BufferKind>;

/// The buffers of one name.
struct Stored {
  Bytes atPeak = 0, largest = 0;
  size_t count = 0;
  bool recomputed = false;
};

std::map<Key, Stored> storedIn(const Plan &plan) {
  std::map<Key, Stored> stored;
  std::optional<size_t> which = peakGraph(plan);
  if (!which)
    return stored;
  const GraphPlan &graph = plan.graphs[*which];
  for (const PlannedBuffer &buffer : graph.buffers) {
    Stored &entry = stored[{buffer.name, buffer.kind}];
    ++entry.count;
    entry.largest = std::max(entry.largest, buffer.size);
    entry.recomputed |= buffer.recomputed;
    if (buffer.begin <= graph.peakStep && graph.peakStep < buffer.end)
      entry.atPeak += buffer.size;
  }
  for (const PlannedBuffer *buffer : stateOutside(plan, graph)) {
    Stored &entry = stored[{buffer->name, buffer->kind}];
    ++entry.count;
    entry.largest = std::max(entry.largest, buffer->size);
    entry.atPeak += buffer->size;
  }
  return stored;
}

std::string changeOf(const Stored *before, const Stored *after) {
  if (!before)
    return after->recomputed ? "recomputed in the second plan" : "only in the second plan";
  if (!after)
    return before->recomputed ? "recomputed in the first plan" : "only in the first plan";
  if (after->atPeak == 0)
    return "no longer live at the peak";
  if (before->atPeak == 0)
    return "live at the peak now";
  if (before->largest != after->largest)
    return after->largest > before->largest ? "larger" : "smaller";
  return after->count > before->count ? "more of them" : "fewer at the peak";
}

std::string peakOf(const Plan &plan) {
  std::optional<size_t> which = peakGraph(plan);
  if (!which)
    return "no graph";
  const GraphPlan &graph = plan.graphs[*which];
  std::string text = concat(graph.name(), ", command ", graph.peakStep, " of ", graph.stepCount);
  if (!graph.steps.empty())
    text += ", " + printableText(graph.steps[graph.peakStep].name, 60);
  return text;
}

std::string share(double before, double after) {
  return before > 0 ? (after >= before ? "+" : "") + formatPercent(after / before - 1) : "";
}

Json totalsOf(const Plan &plan) {
  Json json;
  json["model"] = plan.model;
  json["arena_bytes"] = plan.arenaBytes;
  json["live_peak_bytes"] = plan.livePeakBytes;
  json["lower_bound_bytes"] = plan.lowerBoundBytes;
  json["persistent_bytes"] = plan.persistentBytes;
  json["step_seconds"] = plan.stepSeconds;
  json["extra_time_fraction"] = plan.extraTimeFraction;
  return json;
}

} // namespace

PlanDifference comparePlans(const Plan &before, const Plan &after) {
  const std::map<Key, Stored> first = storedIn(before), second = storedIn(after);
  std::map<Key, std::pair<const Stored *, const Stored *>> both;
  for (const auto &[key, stored] : first)
    both[key].first = &stored;
  for (const auto &[key, stored] : second)
    both[key].second = &stored;
  PlanDifference result;
  result.grew = after.arenaBytes > before.arenaBytes;
  for (const auto &[key, pair] : both) {
    BufferDifference entry{key.first, key.second, 0, 0, ""};
    entry.before = pair.first ? pair.first->atPeak : 0;
    entry.after = pair.second ? pair.second->atPeak : 0;
    if (entry.difference() == 0)
      continue;
    entry.what = changeOf(pair.first, pair.second);
    result.buffers.push_back(std::move(entry));
  }
  std::ranges::sort(result.buffers, [](const auto &a, const auto &b) {
    const Bytes left = std::abs(a.difference()), right = std::abs(b.difference());
    return std::tie(right, a.name, a.kind) < std::tie(left, b.name, b.kind);
  });
  return result;
}

std::string renderDifference(const Plan &before, const Plan &after, const std::string &beforeName,
                             const std::string &afterName, size_t rows) {
  const PlanDifference difference = comparePlans(before, after);
  TextTable totals("lrrrr");
  totals.add({"", printableText(beforeName, 40), printableText(afterName, 40), "difference", ""});
  auto bytes = [&](const char *name, Bytes a, Bytes b) {
    totals.add({name, groupDigits(a), groupDigits(b), signedDigits(b - a),
                share(static_cast<double>(a), static_cast<double>(b))});
  };
  bytes("arena, bytes", before.arenaBytes, after.arenaBytes);
  bytes("live peak", before.livePeakBytes, after.livePeakBytes);
  bytes("lower bound", before.lowerBoundBytes, after.lowerBoundBytes);
  bytes("parameters and state", before.persistentBytes, after.persistentBytes);
  if (before.stepSeconds > 0 && after.stepSeconds > 0)
    totals.add({"planned time of a step", formatSeconds(before.stepSeconds),
                formatSeconds(after.stepSeconds), "",
                share(before.stepSeconds, after.stepSeconds)});
  std::string text = totals.text("");
  text += "fullest  " + peakOf(before) + "\n     to  " + peakOf(after) + "\n\n";
  if (difference.buffers.empty())
    return text + "no buffer differs at the peak\n";
  TextTable table("rrrlll");
  table.add({"difference", "before", "after", "kind", "name", ""});
  Bytes rest = 0, sum = 0;
  for (size_t i = 0; i < difference.buffers.size(); ++i) {
    const BufferDifference &entry = difference.buffers[i];
    sum += entry.difference();
    if (i >= rows)
      rest += entry.difference();
    else
      table.add({signedDigits(entry.difference()), groupDigits(entry.before),
                 groupDigits(entry.after), std::string(nameOf(entry.kind)),
                 printableText(entry.name), entry.what});
  }
  if (difference.buffers.size() > rows)
    table.add(
        {signedDigits(rest), "", "", "",
         "in " + groupDigits(static_cast<int64_t>(difference.buffers.size() - rows)) + " more"});
  table.add({signedDigits(sum), groupDigits(before.livePeakBytes), groupDigits(after.livePeakBytes),
             "", "live at the peak"});
  return text + "at the peak, by difference in bytes:\n" + table.text("  ");
}

std::string differenceToJson(const Plan &before, const Plan &after) {
  const PlanDifference difference = comparePlans(before, after);
  Json json;
  json["grew"] = difference.grew;
  json["before"] = totalsOf(before);
  json["after"] = totalsOf(after);
  json["buffers"] = Json::array();
  for (const BufferDifference &entry : difference.buffers) {
    Json item;
    item["name"] = entry.name;
    item["kind"] = nameOf(entry.kind);
    item["before_bytes"] = entry.before;
    item["after_bytes"] = entry.after;
    item["difference_bytes"] = entry.difference();
    item["what"] = entry.what;
    json["buffers"].push_back(std::move(item));
  }
  return dumpJsonLines(json) + "\n";
}

} // namespace stow
