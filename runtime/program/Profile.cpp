#include "runtime/program/Profile.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/base/Names.h"
#include "runtime/format/PrintableText.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/report/Formats.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <tuple>

namespace stow {

namespace {

/// Steps whose own times are kept, for the median.
constexpr int64_t mostStepTimes = 1 << 20;

constexpr size_t labelWidth = 36;

template <typename... Values> std::string format(const char *pattern, Values... values) {
  char text[200];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

/// `text` in exactly `width` columns; of names that are too long the end says more than the start.
std::string fit(const std::string &text, size_t width) {
  if (text.size() > width)
    return ".." + text.substr(text.size() - width + 2);
  return text + std::string(width - text.size(), ' ');
}

std::string labelOf(const Command &command) {
  std::string kind = command.kind.empty() ? std::string(nameOf(command.op)) : command.kind;
  return command.phase == StepPhase::Forward ? kind : kind + ", " + command.phaseName();
}

/// Work per second in units of 1e9; blank when no work is stated.
std::string rate(double work, double milliseconds) {
  return work > 0 && milliseconds > 0 ? format("%10.1f", work / milliseconds / 1e6)
                                      : std::string(10, ' ');
}

/// The columns that follow a label.
struct Row {
  double ms = 0, planned = 0, least = 0, processor = 0, flops = 0, bytes = 0;

  std::string text(double total) const {
    return format("%11.4f", ms) + (planned > 0 ? format("%11.4f", planned) : std::string(11, ' ')) +
           format("%11.4f%11.4f%7.1f", least, processor, 100 * ms / total) + rate(flops, ms) +
           rate(bytes, ms);
  }
};

const char *const copyHeadings =
    "        MiB    ms/step    planned     waited    planned       GB/s    planned";

const char *const headings =
    "    ms/step    planned   least ms  processor      %   GFLOP/s      GB/s";

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace

/// What copies take on their lane and what commands wait for them, in milliseconds per step.
struct Profile::CopyTimes {
  double bytes = 0, ms = 0, planned = 0, waited = 0, plannedWaited = 0;

  CopyTimes &operator+=(const CopyTimes &other) {
    bytes += other.bytes;
    ms += other.ms;
    planned += other.planned;
    waited += other.waited;
    plannedWaited += other.plannedWaited;
    return *this;
  }

  std::string text() const {
    const std::string none(11, ' ');
    return format("%11.3f%11.4f", bytes / 1048576, ms) +
           (planned > 0 ? format("%11.4f", planned) : none) + format("%11.4f", waited) +
           (planned > 0 ? format("%11.4f", plannedWaited) : none) +
           (ms > 0 ? format("%11.3f", bytes / ms / 1e6) : none) +
           (planned > 0 ? format("%11.3f", bytes / planned / 1e6) : none);
  }
};

Profile::Profile(const GraphProgram &graph, int64_t threads, int64_t steps, const Plan *plan)
    : graph(graph), plan(plan), threads(threads), warmupSteps(std::clamp<int64_t>(steps / 4, 0, 3)),
      commands(graph.commands.size()), times(graph.commands.size()) {
  stepSeconds.reserve(static_cast<size_t>(std::clamp<int64_t>(steps, 1, mostStepTimes)));
  if (plan)
    for (const GraphPlan &candidate : plan->graphs)
      if (candidate.name() == graph.name() && candidate.steps.size() == commands.size())
        planned = &candidate;
  for (size_t i = 0; i < commands.size(); ++i) {
    const Command &command = graph.commands[i];
    if (!isOfCopy(command))
      continue;
    const auto number = static_cast<size_t>(command.ints.at("copy").front());
    copies.resize(std::max(copies.size(), number + 1));
    if (command.op == CommandOp::AwaitCopy) {
      copies[number].await = i;
      continue;
    }
    const Operand &buffer = command.operands.front();
    copies[number].start = &command;
    copies[number].bytes = storedBytes(buffer.layout, buffer.shape, buffer.dtype);
    if (planned && planned->copies) {
      const auto &each = planned->copies->each;
      const auto copy = std::ranges::find(each, static_cast<int64_t>(i), &PlannedCopy::start);
      copies[number].planned = copy == each.end() ? nullptr : &*copy;
    }
  }
  copyTimes.resize(copies.size());
}

/// Of the tensor that travels, or of the node where the plan does not say it.
const std::string &Profile::tensorOf(const Copy &copy) {
  return copy.planned ? copy.planned->name : copy.start->name;
}

Profile::CopyTimes Profile::rowOf(const Copy &copy) const {
  return {static_cast<double>(copy.bytes), perStep(copy.time.seconds),
          copy.planned ? 1e3 * copy.planned->seconds : 0, perStep(commands[copy.await].seconds),
          copy.planned ? plannedMs(copy.await) : 0};
}

double Profile::plannedMs(size_t command) const {
  return planned ? 1e3 * planned->steps[command].seconds : 0;
}

/// Of the plan's step where it is this graph alone; else 0.
double Profile::plannedStepSeconds() const {
  if (!planned || graph.role != GraphRole::Train)
    return 0;
  const auto shape = std::ranges::find(plan->shapes, graph.shape, &PlannedShape::name);
  return shape == plan->shapes.end() ? plan->stepSeconds : shape->stepSeconds;
}

Profile::Time Profile::total() const {
  Time sum = input;
  sum.seconds += rest.seconds;
  sum.processor += rest.processor;
  for (const Time &command : commands) {
    sum.seconds += command.seconds;
    sum.processor += command.processor;
  }
  return sum;
}

std::string Profile::byKind() const {
  struct Kind {
    std::string label;
    int64_t count = 0;
    Row row;
  };
  std::vector<Kind> kinds;
  for (size_t i = 0; i < commands.size(); ++i) {
    std::string label = labelOf(graph.commands[i]);
    auto kind = std::ranges::find(kinds, label, &Kind::label);
    if (kind == kinds.end())
      kind = kinds.insert(kinds.end(), {label, 0, {}});
    ++kind->count;
    kind->row.ms += perStep(commands[i].seconds);
    kind->row.planned += plannedMs(i);
    kind->row.least += 1e3 * commands[i].least;
    kind->row.processor += perStep(commands[i].processor);
    kind->row.flops += graph.commands[i].flops;
    kind->row.bytes += graph.commands[i].bytes;
  }
  std::ranges::sort(kinds, [](const Kind &a, const Kind &b) {
    return std::tie(b.row.ms, a.label) < std::tie(a.row.ms, b.label);
  });
  double total = perStep(this->total().seconds);
  std::string text = "  " + fit("kind", labelWidth) + " commands" + headings + "\n";
  for (const Kind &kind : kinds)
    text += "  " + fit(kind.label, labelWidth) +
            format("%9lld", static_cast<long long>(kind.count)) + kind.row.text(total) + "\n";
  for (auto [label, time] :
       {std::pair("batch into the arena", input), std::pair("loss and the rest", rest)})
    text += "  " + fit(label, labelWidth + 9) +
            Row{perStep(time.seconds), 0, 1e3 * time.least, perStep(time.processor)}.text(total) +
            "\n";
  return text;
}

std::string Profile::byCommand(size_t rows) const {
  std::vector<size_t> order(commands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return std::tie(commands[b].seconds, a) < std::tie(commands[a].seconds, b);
  });
  order.resize(std::min(order.size(), rows));
  double total = perStep(this->total().seconds);
  std::string text = "  " + fit("command", labelWidth) + " number " + headings + "  node\n";
  for (size_t i : order) {
    const Command &command = graph.commands[i];
    Row row{perStep(commands[i].seconds),   plannedMs(i),  1e3 * commands[i].least,
            perStep(commands[i].processor), command.flops, command.bytes};
    text += "  " + fit(labelOf(command), labelWidth) + format("%7zu ", i) + " " + row.text(total) +
            "  " + printableText(command.name, 120) + "\n";
  }
  return text;
}

/// The lanes, and the copies that commands wait for longest, measured and as planned; nothing where nothing travels.
std::string Profile::ofCopies(size_t rows) const {
  if (copies.empty())
    return "";
  std::string text = "\n  " + fit("lane", labelWidth) + "  copies " + copyHeadings + "\n";
  for (const CommandOp kind : {CommandOp::CopyOut, CommandOp::CopyIn}) {
    long long count = 0;
    CopyTimes sum;
    for (const Copy &copy : copies)
      if (copy.start->op == kind) {
        ++count;
        sum += rowOf(copy);
      }
    if (count > 0)
      text += "  " + fit(std::string(nameOf(kind)), labelWidth) + format("%8lld ", count) +
              sum.text() + "\n";
  }
  if (planned && planned->copies)
    text +=
        format("  planned: %.4f ms of waiting beside %.4f ms that are hidden; %.1f %% more time in "
               "all",
               1e3 * planned->copies->exposedSeconds, 1e3 * planned->copies->hiddenSeconds,
               100 * plan->extraTimeFraction) +
        (plan->extraTimeBound > 0 ? format(", and no plan in this memory takes less than %.1f %%",
                                           100 * plan->extraTimeBound)
                                  : "") +
        "\n";
  std::vector<const Copy *> order;
  for (const Copy &copy : copies)
    order.push_back(&copy);
  std::ranges::stable_sort(order, {},
                           [&](const Copy *copy) { return -commands[copy->await].seconds; });
  order.resize(std::min(order.size(), rows));
  text += "\n  " + fit("copy", labelWidth) + " command " + copyHeadings + "  tensor\n";
  for (const Copy *copy : order)
    text += "  " + fit(std::string(nameOf(copy->start->op)), labelWidth) +
            format("%8zu ", copy->start - graph.commands.data()) + rowOf(*copy).text() + "  " +
            printableText(tensorOf(*copy), 120) + "\n";
  return text;
}

std::string Profile::text(size_t rows) const {
  if (stepsCounted() == 0)
    return "profile of '" + graph.name() + "': no step has run" +
           (hasRun() ? " after those to warm up; raise --steps" : "") + "\n";
  std::string text =
      format("profile of '%s': %lld steps after %lld to warm up, %lld threads\n",
             graph.name().c_str(), static_cast<long long>(stepsCounted()),
             static_cast<long long>(warmupSteps), static_cast<long long>(threads)) +
      format("  %.4f ms per step (median %.4f, least %.4f), %.4f ms of processor time\n\n",
             perStep(total().seconds), 1e3 * median(stepSeconds),
             1e3 * *std::ranges::min_element(stepSeconds), perStep(total().processor));
  if (const double seconds = plannedStepSeconds(); seconds > 0)
    text += format("  planned: %.4f ms per step", 1e3 * seconds) + ", " + plan->costSource + "\n\n";
  return text + byKind() + "\n" + byCommand(rows) + ofCopies(rows);
}

std::string Profile::json(const std::string &device) const {
  Json json;
  json["graph"] = graph.name();
  if (!device.empty())
    json["device"] = device;
  json["threads"] = threads;
  json["steps"] = stepsCounted();
  json["step_ms"] = Json::array();
  json["commands"] = Json::array();
  if (stepsCounted() == 0)
    return dumpJson(json, -1);
  for (double seconds : stepSeconds)
    json["step_ms"].push_back(1e3 * seconds);
  json["processor_ms"] = perStep(total().processor);
  json["input_ms"] = perStep(input.seconds);
  json["rest_ms"] = perStep(rest.seconds);
  for (size_t i = 0; i < commands.size(); ++i) {
    const Command &command = graph.commands[i];
    Json item;
    item["index"] = i;
    item["kind"] = command.kind.empty() ? std::string(nameOf(command.op)) : command.kind;
    item["phase"] = command.phaseName();
    item["name"] = command.name;
    item["ms"] = perStep(commands[i].seconds);
    item["least_ms"] = 1e3 * commands[i].least;
    item["processor_ms"] = perStep(commands[i].processor);
    if (plannedMs(i) > 0)
      item["planned_ms"] = plannedMs(i);
    item["flops"] = command.flops;
    item["bytes"] = command.bytes;
    if (const auto kernels = command.ints.find("kernels"); kernels != command.ints.end())
      item["kernels"] = kernels->second;
    if (planned && !planned->steps[i].implementation.empty())
      item["implementation"] = planned->steps[i].implementation;
    json["commands"].push_back(std::move(item));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    Json item;
    item["number"] = i;
    item["kind"] = nameOf(copies[i].start->op);
    item["name"] = copies[i].start->name;
    item["tensor"] = tensorOf(copies[i]);
    item["bytes"] = copies[i].bytes;
    const CopyTimes row = rowOf(copies[i]);
    item["ms"] = row.ms;
    item["least_ms"] = 1e3 * copies[i].time.least;
    item["waited_ms"] = row.waited;
    if (copies[i].planned) {
      item["planned_ms"] = row.planned;
      item["planned_waited_ms"] = row.plannedWaited;
    }
    json["copies"].push_back(std::move(item));
  }
  if (planned && planned->copies) {
    Json &said = json["planned_copies"];
    said["exposed_ms"] = 1e3 * planned->copies->exposedSeconds;
    said["hidden_ms"] = 1e3 * planned->copies->hiddenSeconds;
    said["extra_time_fraction"] = plan->extraTimeFraction;
    said["extra_time_bound_fraction"] = plan->extraTimeBound;
  }
  return dumpJson(json, -1);
}

std::string Profile::perfetto() const {
  if (stepsCounted() == 0 || !planned)
    throw Error::badInput(planned ? "no step has run after those to warm up; raise --steps"
                                  : "the plan of this program has no times of its commands");
  Plan both = *plan;
  both.graphs = {*planned, *planned};
  both.costSource = "measured, and planned: " + plan->costSource;
  for (size_t i = 0; i < commands.size(); ++i)
    both.graphs[0].steps[i].seconds = commands[i].seconds / static_cast<double>(stepsCounted());
  const std::string titles[] = {
      concat(graph.name(), ", measured: mean of ", stepsCounted(), " steps"),
      graph.name() + ", planned"};
  return toPerfetto(both, titles);
}

ProfileFormat parseProfileFormat(const std::string &text) {
  return oneOf(text, {"json", "perfetto"}, "format", "--profile-format") == 0
             ? ProfileFormat::Json
             : ProfileFormat::Perfetto;
}

void reportProfiles(std::span<const Profile *const> profiles, const std::string &path,
                    ProfileFormat format, const Device &device) {
  constexpr size_t rows = 20;
  const std::optional<DriverMemory> driver = device.driverMemory();
  std::string text, json;
  for (const Profile *profile : profiles) {
    text += (text.empty() ? "" : "\n") + profile->text(rows);
    json += (json.empty() ? "" : ",") + profile->json(driver ? driver->device : "");
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (path.empty())
    return;
  if (format == ProfileFormat::Perfetto)
    return writeFile(path, profiles.back()->perfetto());
  writeFile(path, profiles.size() > 1 ? "{\"graphs\":[" + json + "]}" : json);
}

} // namespace stow
