// Chrome's trace event format, as Perfetto documents and reads it: times in microseconds, "X" a
// slice, "C" counters, "s" and "f" the ends of a flow, "M" names. An event per line.
#include "runtime/base/Json.h"
#include "runtime/report/Formats.h"
#include "runtime/report/Timeline.h"

#include <cstdio>

namespace stow {

namespace {

/// Nanoseconds as the format's microseconds, exactly.
Json microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

class Trace {
public:
  void event(Json event) { text += (text.empty() ? "" : ",\n") + dumpJson(event, -1); }

  /// `what` is process_name or thread_name.
  void name(const char *what, int64_t process, int64_t thread, const std::string &name) {
    Json json = {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}};
    json["args"]["name"] = name;
    event(std::move(json));
  }

  std::string finish(const Plan &plan) const {
    Json other;
    other["model"] = plan.model;
    other["arena_bytes"] = plan.arenaBytes;
    other["times"] = plan.costSource.empty() ? "not known" : plan.costSource;
    return "{\"displayTimeUnit\": \"ms\", \"otherData\": " + dumpJson(other, -1) +
           ",\n\"traceEvents\": [\n" + text + "\n]}\n";
  }

private:
  std::string text;
};

void addSlices(Trace &trace, const GraphPlan &graph, const Timeline &time, int64_t process) {
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    const PlannedStep &step = graph.steps[i];
    Json slice = {{"ph", "X"}, {"name", step.name}, {"pid", process}, {"tid", 1}};
    slice["cat"] = step.recomputes ? "recomputed" : step.phaseName();
    slice["ts"] = microseconds(time.begin(i));
    slice["dur"] = microseconds(time.end(i) - time.begin(i));
    Json &arguments = slice["args"];
    arguments["step"] = i;
    arguments["module"] = step.module;
    arguments["source"] = step.source;
    arguments["live_bytes"] = time.liveBytes(i);
    Bytes written = 0;
    for (int64_t buffer : step.writes)
      if (graph.buffers[buffer].begin == static_cast<int64_t>(i))
        written += graph.buffers[buffer].size;
    arguments["new_bytes"] = written;
    trace.event(std::move(slice));
  }
}

/// From the middle of each first run to the middle of each repetition: a flow's ends belong to the
/// slices that they lie in.
void addFlows(Trace &trace, const GraphPlan &graph, const Timeline &time, int64_t process,
              int64_t &flow) {
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    if (!graph.steps[i].recomputes)
      continue;
    ++flow;
    auto end = [&](const char *phase, size_t step) {
      Json json = {{"ph", phase}, {"name", "recompute"}, {"cat", "recompute"},
                   {"id", flow},  {"pid", process},      {"tid", 1}};
      json["ts"] = microseconds((time.begin(step) + time.end(step)) / 2);
      if (*phase == 'f')
        json["bp"] = "e";
      trace.event(std::move(json));
    };
    end("s", *graph.steps[i].recomputes);
    end("f", i);
  }
}

void addCounters(Trace &trace, const GraphPlan &graph, const Timeline &time, int64_t process) {
  auto counter = [&](const char *name, int64_t at) {
    Json json = {{"ph", "C"}, {"name", name}, {"pid", process}};
    json["ts"] = microseconds(at);
    return json;
  };
  Json last;
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    Json total = counter("live bytes", time.begin(i));
    total["args"]["bytes"] = time.liveBytes(i);
    trace.event(std::move(total));
    Json values;
    for (const auto &[kind, bytes] : time.liveByKind(i))
      values[std::string(nameOf(kind))] = bytes;
    if (values == last)
      continue;
    Json kinds = counter("live bytes by kind", time.begin(i));
    kinds["args"] = values;
    trace.event(std::move(kinds));
    last = std::move(values);
  }
}

} // namespace

std::string toPerfetto(const Plan &plan) {
  std::vector<std::string> titles;
  for (const GraphPlan &graph : plan.graphs)
    titles.push_back(graph.name());
  return toPerfetto(plan, titles);
}

std::string toPerfetto(const Plan &plan, std::span<const std::string> titles) {
  Trace trace;
  int64_t process = 0, flow = 0;
  for (const GraphPlan &graph : plan.graphs) {
    const Timeline time(graph);
    const std::string &title = titles[process++];
    trace.name("process_name", process, 0, plan.model + ": " + title);
    trace.name("thread_name", process, 1, "commands");
    addSlices(trace, graph, time, process);
    addFlows(trace, graph, time, process, flow);
    addCounters(trace, graph, time, process);
  }
  return trace.finish(plan);
}

} // namespace stow
