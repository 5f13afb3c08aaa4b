#include "runtime/report/Explain.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"
#include "runtime/format/PlanReport.h"
#include "runtime/report/TextTable.h"
#include "runtime/report/Timeline.h"
#include "runtime/report/Usage.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <tuple>

namespace stow {

namespace {

const GraphPlan &fullestGraph(const Plan &plan) {
  std::optional<size_t> which = peakGraph(plan);
  if (!which || plan.graphs[*which].steps.empty())
    throw Error::badInput("the plan of \"" + printableText(plan.model) +
                          "\" has no commands; there is nothing to explain");
  return plan.graphs[*which];
}

std::string typeText(const PlannedBuffer &buffer) {
  return shapeText(buffer.shape) + " " + std::string(nameOf(buffer.dtype));
}

/// "command 12 of 80, conv2d of /conv1/Conv".
std::string commandText(const GraphPlan &graph, int64_t step) {
  return concat("command ", step, " of ", graph.stepCount, ", ",
                printableText(graph.steps[step].name));
}

std::string share(double part, double whole) {
  return whole > 0 ? formatPercent(part / whole) : "";
}

double secondsOf(const GraphPlan &graph) {
  double sum = 0;
  for (const PlannedStep &step : graph.steps)
    sum += step.seconds;
  return sum;
}

/// The groups that people think in, in the order of reports.
std::string groupOf(const PlannedBuffer &buffer) {
  switch (buffer.kind) {
  case BufferKind::Parameter:
    return "weights";
  case BufferKind::Frozen:
    return "frozen weights";
  case BufferKind::Optimizer:
    return "optimizer state: momentum, moments";
  case BufferKind::FetchedWeight:
    return "weights fetched from slow memory";
  case BufferKind::FetchedOptimizer:
    return "optimizer state fetched from slow memory, or on its way back";
  case BufferKind::Accumulator:
    return "sums of gradients over the batches of a step";
  case BufferKind::DataSet:
    return "the samples of the run";
  case BufferKind::Statistic:
    return "running statistics and constants";
  case BufferKind::Input:
    return "the batch and what the host sets for the step";
  case BufferKind::Output:
    return "results that the host reads after the step";
  case BufferKind::Gradient:
    return "gradients on their way to their last reader";
  case BufferKind::Workspace:
    return "scratch space of library calls";
  case BufferKind::Activation:
    break;
  }
  if (buffer.recomputed)
    return "activations computed again instead of kept";
  if (buffer.reason.starts_with("fetched from slow memory"))
    return "activations fetched from slow memory instead of kept";
  if (buffer.reason.starts_with("kept for the backward pass"))
    return "activations kept for the backward pass (what autograd would save)";
  return "activations until their last reader";
}

/// Empty where nothing travels, or where a plan's file does not list them.
const std::vector<PlannedCopy> &copiesOf(const GraphPlan &graph) {
  static const std::vector<PlannedCopy> none;
  return graph.copies ? graph.copies->each : none;
}

/// Why `buffer` is still or already there at `step`.
std::string causeOf(const GraphPlan &graph, const BufferUse &use, const PlannedBuffer &buffer,
                    int64_t step) {
  if (buffer.kind == BufferKind::Parameter || buffer.kind == BufferKind::Frozen ||
      buffer.kind == BufferKind::Optimizer || buffer.kind == BufferKind::Statistic ||
      buffer.kind == BufferKind::DataSet)
    return "kept from step to step";
  if (buffer.kind == BufferKind::Accumulator)
    return "kept from batch to batch";
  const size_t number = &buffer - graph.buffers.data();
  if (use.isUsedAt(number, step))
    return "in use by this command";
  const std::optional<int64_t> next = use.nextReader(number, step);
  if (!next)
    return buffer.end == graph.stepCount ? "read after the step" : "a part of it is read later";
  return concat("waits for command ", *next, ", ", printableText(graph.steps[*next].name, 60));
}

} // namespace

int64_t findMoment(const Plan &plan, const std::string &text) {
  const GraphPlan &graph = fullestGraph(plan);
  if (text == "peak")
    return graph.peakStep;
  // A number begins with a digit: "nan" and "-1" are parts of names.
  const bool isNumber = !text.empty() && text.front() >= '0' && text.front() <= '9';
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = std::string_view(text).substr(end - text.data());
  if (isNumber && error == std::errc() && unit.empty()) {
    if (number >= static_cast<double>(graph.stepCount) ||
        number != static_cast<double>(static_cast<int64_t>(number)))
      throw Error::badInput(concat("--at=", text, " is no command of \"", graph.name(),
                                   "\"; expected 0 to ", graph.stepCount - 1));
    return static_cast<int64_t>(number);
  }
  if (isNumber && error == std::errc() && (unit == "s" || unit == "ms" || unit == "us")) {
    if (secondsOf(graph) <= 0)
      throw Error::badInput("--at=" + text +
                            " needs planned times, which this plan does not have; "
                            "give the number of a command");
    const double nanoseconds = number * (unit == "s" ? 1e9 : unit == "ms" ? 1e6 : 1e3);
    const Timeline time(graph);
    for (int64_t step = 0; step < graph.stepCount; ++step)
      if (nanoseconds >= 0 && nanoseconds < static_cast<double>(time.end(step)))
        return step;
    throw Error::badInput("--at=" + text + " lies outside the step, which takes " +
                          formatSeconds(static_cast<double>(time.end(graph.stepCount - 1)) / 1e9));
  }
  const Timeline time(graph);
  std::optional<int64_t> best;
  for (int64_t step = 0; step < graph.stepCount; ++step) {
    const PlannedStep &candidate = graph.steps[step];
    const bool matches = candidate.name.find(text) != std::string::npos ||
                         candidate.module.find(text) != std::string::npos ||
                         candidate.source.find(text) != std::string::npos;
    if (!text.empty() && matches && (!best || time.liveBytes(step) > time.liveBytes(*best)))
      best = step;
  }
  if (!best)
    throw Error::badInput(
        "no node or module of \"" + graph.name() + "\" contains \"" + printableText(text) +
        "\"; --at takes peak, the number of a command, a time such as 1.5ms, or a "
        "part of a node's name");
  return *best;
}

std::string explainMoment(const Plan &plan, int64_t step, size_t rows) {
  const GraphPlan &graph = fullestGraph(plan);
  const Timeline time(graph);
  const BufferUse use(graph);
  std::vector<const PlannedBuffer *> live = liveAt(graph, step);
  std::ranges::copy(stateOutside(plan, graph), std::back_inserter(live));
  sortBySize(live);
  const Bytes whole = fullestBytes(plan, graph),
              total = time.liveBytes(step) + whole - graph.livePeakBytes;
  const bool isPeak = step == graph.peakStep;
  std::string text = concat(
      "\"", printableText(plan.model), "\" trains in ", formatBytesExact(plan.arenaBytes),
      ", of which ", formatBytesExact(plan.persistentBytes),
      " are weights and other state; everything else takes turns in the rest.\n",
      isPeak ? "It is fullest at " : "At ", commandText(graph, step), " (",
      graph.steps[step].recomputes ? "recomputed, " : "", graph.steps[step].phaseName(),
      secondsOf(graph) > 0 ? ", " +
                                 formatPercent(static_cast<double>(time.begin(step)) /
                                               static_cast<double>(time.end(graph.stepCount - 1))) +
                                 " into the step"
                           : "",
      "): ", live.size(), " tensors, ", groupDigits(total), " bytes",
      isPeak
          ? ""
          : ", " + share(static_cast<double>(total), static_cast<double>(whole)) + " of the peak",
      ".\n\n");
  std::vector<std::pair<std::string, Bytes>> groups;
  for (const PlannedBuffer *buffer : live) {
    const std::string group = groupOf(*buffer);
    auto known = std::ranges::find(groups, group, &std::pair<std::string, Bytes>::first);
    if (known == groups.end())
      known = groups.insert(groups.end(), {group, 0});
    known->second += buffer->size;
  }
  std::ranges::sort(groups, [](const auto &a, const auto &b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
  TextTable sums("rrl");
  for (const auto &[group, bytes] : groups)
    sums.add(
        {groupDigits(bytes), share(static_cast<double>(bytes), static_cast<double>(total)), group});
  text += sums.text("  ") + "\nthe largest, and why they are there:\n";
  TextTable table("rlll");
  Bytes rest = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    const PlannedBuffer &buffer = *live[i];
    if (i >= rows)
      rest += buffer.size;
    else
      table.add({groupDigits(buffer.size), printableText(buffer.name, 56), typeText(buffer),
                 causeOf(graph, use, buffer, step)});
  }
  if (live.size() > rows)
    table.add({groupDigits(rest), concat("in ", live.size() - rows, " more")});
  return text + table.text("  ");
}

namespace {

std::string listUsers(const GraphPlan &graph, const char *title,
                      const std::vector<int64_t> &users) {
  constexpr size_t kMost = 12;
  std::string text;
  for (size_t i = 0; i < users.size() && i < kMost; ++i)
    append(text, i ? "             " : title, users[i], "  ",
           printableText(graph.steps[users[i]].name), "\n");
  if (users.size() > kMost)
    append(text, "             and ", users.size() - kMost, " more\n");
  return text;
}

/// The copies that touch a buffer, and what commands wait for them.
std::string listCopies(const GraphPlan &graph, size_t number) {
  std::string text;
  for (const PlannedCopy &copy : copiesOf(graph)) {
    if (copy.buffer != static_cast<int64_t>(number))
      continue;
    const double waited = graph.steps[copy.await].seconds;
    append(text, copy.isOut ? "  sent to slow memory" : "  fetched from slow memory",
           " at command ", copy.start, ", awaited by command ", copy.await);
    if (copy.seconds > 0)
      append(text, ": ", formatSeconds(copy.seconds), ", of which commands wait ",
             waited > 0 ? formatSeconds(waited) : "for none");
    text += "\n";
  }
  return text;
}

std::string explainOne(const Plan &plan, const GraphPlan &graph, const BufferUse &use,
                       size_t number) {
  const PlannedBuffer &buffer = graph.buffers[number];
  const Timeline time(graph);
  std::string text =
      printableText(buffer.name) + "\n  " + std::string(nameOf(buffer.kind)) + " " +
      typeText(buffer) + ", " + formatBytesExact(buffer.size) +
      (buffer.size > buffer.logicalSize
           ? ", " + groupDigits(buffer.size - buffer.logicalSize) + " of them padding"
           : "") +
      (buffer.layout.empty() ? "" : ", stored in the order " + printableText(buffer.layout)) + "\n";
  if (!buffer.source.empty())
    text += "  made by " + printableText(buffer.source) +
            (buffer.module.empty() ? "" : ", module " + printableText(buffer.module)) + "\n";
  append(text, "  at byte ", groupDigits(buffer.offset), " of the arena, alive from command ",
         buffer.begin, " up to ", buffer.end, " of ", graph.stepCount, "\n");
  if (!buffer.reason.empty())
    text += "  why: " + printableText(buffer.reason, 200) + "\n";
  text += listUsers(graph, "  written by ", use.writersOf(number));
  text += listUsers(graph, "  read by    ", use.readersOf(number));
  text += listCopies(graph, number);
  const int64_t peak = graph.peakStep;
  if (!(buffer.begin <= peak && peak < buffer.end))
    return text + "  not alive at the peak: without it the plan would be no smaller\n";
  text += "  alive at the peak, " +
          share(static_cast<double>(buffer.size), static_cast<double>(fullestBytes(plan, graph))) +
          " of it; " + causeOf(graph, use, buffer, peak) + "\n";
  if (buffer.recomputeSeconds && !use.isUsedAt(number, peak))
    text += "  computing it again after the peak instead would take " +
            formatSeconds(*buffer.recomputeSeconds) + ", " +
            share(*buffer.recomputeSeconds, secondsOf(graph)) +
            " of a step, if its operands are still there\n";
  return text;
}

bool contains(const PlannedBuffer &buffer, const std::string &part) {
  auto has = [&](const std::string &text) { return text.find(part) != std::string::npos; };
  return has(buffer.name) || has(buffer.module) || has(buffer.source) ||
         std::ranges::any_of(buffer.aliases, has, &PlannedAlias::name);
}

} // namespace

std::string explainBuffer(const Plan &plan, const std::string &name, size_t rows) {
  const GraphPlan &graph = fullestGraph(plan);
  const BufferUse use(graph);
  std::vector<size_t> found;
  for (size_t i = 0; i < graph.buffers.size(); ++i)
    if (graph.buffers[i].name == name)
      found.push_back(i);
  if (found.empty() && !name.empty())
    for (size_t i = 0; i < graph.buffers.size(); ++i)
      if (contains(graph.buffers[i], name))
        found.push_back(i);
  if (found.empty())
    throw Error::badInput("no buffer, node or module of \"" + graph.name() + "\" contains \"" +
                          printableText(name) + "\"; stowage inspect lists the largest");
  std::ranges::sort(found, [&](size_t a, size_t b) {
    return std::tie(graph.buffers[b].size, a) < std::tie(graph.buffers[a].size, b);
  });
  std::string text;
  for (size_t i = 0; i < found.size() && i < rows; ++i)
    text += (i ? "\n" : "") + explainOne(plan, graph, use, found[i]);
  if (found.size() > rows)
    append(text, "\nand ", found.size() - rows, " smaller buffers; --rows=N shows more\n");
  return text;
}

namespace {

/// Activations that `step` makes, those that `counts`.
template <typename Counts>
Bytes bytesMadeBy(const GraphPlan &graph, int64_t step, const Counts &counts) {
  Bytes bytes = 0;
  for (int64_t number : graph.steps[step].writes) {
    const PlannedBuffer &buffer = graph.buffers[number];
    if (buffer.kind == BufferKind::Activation && buffer.begin == step && counts(buffer))
      bytes += buffer.size;
  }
  return bytes;
}

/// What is gone before the peak and there again after it, less what another run keeps over it.
Bytes savedBy(const GraphPlan &graph, const Repeated &entry) {
  const int64_t peak = graph.peakStep;
  if (entry.first >= peak || entry.again.back() <= peak)
    return 0;
  Bytes saved = bytesMadeBy(graph, entry.first,
                            [&](const PlannedBuffer &buffer) { return buffer.end <= peak; });
  for (int64_t step : entry.again)
    if (step <= peak)
      saved -=
          bytesMadeBy(graph, step, [&](const PlannedBuffer &buffer) { return buffer.end > peak; });
  return std::max<Bytes>(0, saved);
}

Traveller travellerOf(const GraphPlan &graph, const std::string &name,
                      const std::vector<const PlannedCopy *> &copies) {
  Traveller result;
  result.name = name;
  const int64_t peak = graph.peakStep;
  bool isHere = false; // at the peak
  for (size_t i = 0; i < copies.size(); ++i) {
    const PlannedCopy &copy = *copies[i];
    const PlannedBuffer &buffer = graph.buffers[copy.buffer];
    result.bytes = copy.bytes;
    result.copySeconds += copy.seconds;
    result.waitedSeconds += graph.steps[copy.await].seconds;
    isHere |= buffer.begin <= peak && peak < buffer.end;
    if (copy.isOut && i == 0)
      result.againSeconds = buffer.recomputeSeconds;
    if (copy.isOut || i == 0 || !copies.front()->isOut)
      continue;
    // It has left with its copy out, or with the last reader of what was fetched before.
    const PlannedCopy &before = *copies[i - 1];
    const std::pair<int64_t, int64_t> away = {
        before.isOut ? before.await : graph.buffers[before.buffer].end - 1, copy.start};
    if (!result.away || (away.first < peak && peak < away.second))
      result.away = away;
  }
  const bool mayBeAway = !result.away || (result.away->first < peak && peak < result.away->second);
  result.saved = !isHere && mayBeAway ? result.bytes : 0;
  return result;
}

} // namespace

std::vector<Repeated> repeatedSteps(const GraphPlan &graph) {
  std::map<int64_t, Repeated> byFirst;
  for (int64_t step = 0; step < graph.stepCount; ++step)
    if (const std::optional<int64_t> first = graph.steps[step].recomputes) {
      Repeated &entry = byFirst[*first];
      entry.first = *first;
      entry.again.push_back(step);
      entry.seconds += graph.steps[step].seconds;
    }
  std::vector<Repeated> list;
  for (auto &[first, entry] : byFirst) {
    entry.saved = savedBy(graph, entry);
    list.push_back(std::move(entry));
  }
  std::ranges::sort(list, [](const Repeated &a, const Repeated &b) {
    return std::tie(b.saved, b.seconds, a.first) < std::tie(a.saved, a.seconds, b.first);
  });
  return list;
}

std::vector<Traveller> travellersOf(const GraphPlan &graph) {
  std::vector<std::pair<std::string, std::vector<const PlannedCopy *>>> byName; // as they leave
  std::map<std::string, size_t> known;
  for (const PlannedCopy &copy : copiesOf(graph)) {
    const auto [found, isNew] = known.try_emplace(copy.name, byName.size());
    if (isNew)
      byName.push_back({copy.name, {}});
    byName[found->second].second.push_back(&copy);
  }
  std::vector<Traveller> list;
  for (const auto &[name, copies] : byName)
    list.push_back(travellerOf(graph, name, copies));
  std::ranges::stable_sort(list, [](const Traveller &a, const Traveller &b) {
    return std::tie(b.saved, b.bytes) < std::tie(a.saved, a.bytes);
  });
  return list;
}

namespace {

/// Why each of them went: what that takes off the peak, and what it costs beside computing it again.
std::string tableOfTravellers(const GraphPlan &graph, size_t rows) {
  const std::vector<Traveller> list = travellersOf(graph);
  if (list.empty())
    return "";
  TextTable table("rlrrrl");
  table.add({"off the peak", "away", "copies", "waited for", "computed again", "what travels"});
  for (size_t i = 0; i < list.size() && i < rows; ++i) {
    const Traveller &one = list[i];
    const auto seconds = [](double value) { return value > 0 ? formatSeconds(value) : ""; };
    table.add(
        {groupDigits(one.saved),
         one.away ? concat("from ", one.away->first, " to ", one.away->second) : "between its uses",
         seconds(one.copySeconds), seconds(one.waitedSeconds),
         seconds(one.againSeconds.value_or(0)), printableText(one.name)});
  }
  if (list.size() > rows)
    table.add({"", "", "", "", "", concat("and ", list.size() - rows, " more")});
  return table.text("  ");
}

} // namespace

std::string explainRecomputation(const Plan &plan, size_t rows) {
  const GraphPlan &graph = fullestGraph(plan);
  const std::vector<Repeated> list = repeatedSteps(graph);
  std::string copies = describeCopies(plan).empty() ? "" : describeCopies(plan) + ".\n";
  const std::string travellers = tableOfTravellers(graph, rows);
  if (plan.devices > 1)
    copies += describeReductions(plan) + ".\n";
  if (list.empty())
    return copies.empty()
               ? "Nothing is computed twice: every activation is kept until its last reader.\n"
               : "Nothing is computed twice.\n" + copies + travellers;
  int64_t again = 0;
  double seconds = 0;
  for (const Repeated &entry : list) {
    again += static_cast<int64_t>(entry.again.size());
    seconds += entry.seconds;
  }
  std::string text =
      concat(again, " of ", graph.stepCount, " commands compute again what was dropped");
  if (seconds > 0)
    text +=
        ": " + formatSeconds(seconds) + ", " + formatPercent(recomputedFractionOf(plan)) +
        " more time" +
        (plan.extraTimeBound > 0 && copies.empty() ? " (no plan in this memory takes less than " +
                                                         formatPercent(plan.extraTimeBound) + ")"
                                                   : "");
  text += ". Results are the same bit for bit.\n" + copies;
  if (plan.withoutRecomputeBytes > plan.arenaBytes)
    text += "That buys " + formatBytesExact(plan.withoutRecomputeBytes - plan.arenaBytes) + ": " +
            groupDigits(plan.arenaBytes) + " bytes instead of " +
            groupDigits(plan.withoutRecomputeBytes) + ".\n";
  TextTable table("rrrl");
  table.add({"off the peak", "time", "runs", "what"});
  for (size_t i = 0; i < list.size() && i < rows; ++i)
    table.add(
        {groupDigits(list[i].saved), list[i].seconds > 0 ? formatSeconds(list[i].seconds) : "",
         std::to_string(1 + list[i].again.size()), printableText(graph.steps[list[i].first].name)});
  if (list.size() > rows)
    table.add({"", "", "", concat("and ", list.size() - rows, " more")});
  return text + table.text("  ") + travellers;
}

std::vector<const PlannedBuffer *> savingsAtPeak(const GraphPlan &graph) {
  const BufferUse use(graph);
  std::vector<const PlannedBuffer *> candidates;
  for (const PlannedBuffer *buffer : liveAt(graph, graph.peakStep))
    if (buffer->recomputeSeconds && buffer->size > 0 && !buffer->recomputed &&
        !use.isUsedAt(buffer - graph.buffers.data(), graph.peakStep))
      candidates.push_back(buffer);
  std::ranges::sort(candidates, [](const PlannedBuffer *a, const PlannedBuffer *b) {
    const double left = *a->recomputeSeconds * static_cast<double>(b->size),
                 right = *b->recomputeSeconds * static_cast<double>(a->size);
    return std::tie(left, b->size, a->name, a) < std::tie(right, a->size, b->name, b);
  });
  return candidates;
}

std::string explainSavings(const Plan &plan, std::optional<Bytes> below, size_t rows) {
  const GraphPlan &graph = fullestGraph(plan);
  if (below && plan.arenaBytes <= *below)
    return "The plan is already within " + formatBytesExact(*below) + ".\n";
  const std::vector<const PlannedBuffer *> candidates = savingsAtPeak(graph);
  if (candidates.empty())
    return "Nothing that is alive at the peak could be computed again later: it is state, in use "
           "then, or of unknown price.\n";
  TextTable table("rrrrl");
  table.add({"bytes", "sum", "time", "sum", "computed again after the peak"});
  Bytes bytes = 0;
  double seconds = 0;
  size_t used = 0;
  const Bytes wanted = below ? plan.arenaBytes - *below : 0;
  for (const PlannedBuffer *buffer : candidates) {
    if (below ? bytes >= wanted : used >= rows)
      break;
    ++used;
    bytes += buffer->size;
    seconds += *buffer->recomputeSeconds;
    if (used <= rows)
      table.add({groupDigits(buffer->size), groupDigits(bytes),
                 formatSeconds(*buffer->recomputeSeconds), formatSeconds(seconds),
                 printableText(buffer->name) + " " + typeText(*buffer)});
  }
  if (used > rows)
    table.add({"", groupDigits(bytes), "", formatSeconds(seconds),
               concat("with ", used - rows, " more")});
  std::string text = below ? "To take " + groupDigits(wanted) + " bytes off this peak:\n"
                           : "The cheapest ways to less at this peak:\n";
  text += table.text("  ");
  if (below && bytes < wanted)
    text += "That is all there is, " + formatBytesExact(wanted - bytes) + " too little.\n";
  return text + "An estimate: the peak moves when it is lowered, and what is computed again needs "
                "its operands. Results do not change.\n";
}

} // namespace stow
