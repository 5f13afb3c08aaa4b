// PyTorch's memory snapshot: {"segments": [..], "device_traces": [[..], ..], ...}. The keys are
// those that torch/csrc/cuda/memory_snapshot.cpp writes and torch/cuda/_memory_viz.py reads; the
// page unpickles with a reader of its own that knows protocols 2 to 4.
#include "runtime/report/Formats.h"
#include "runtime/report/Pickle.h"
#include "runtime/report/Timeline.h"

#include <algorithm>
#include <charconv>

namespace stow {

namespace {

/// A line of a stack trace.
struct Frame {
  std::string name, file;
  int64_t line = 0;
};

/// "model.onnx:12 (/layer1/conv1/Conv)" as file, line and name; other texts are names.
Frame frameOf(const std::string &source) {
  const size_t name = source.find(" (");
  const size_t colon = source.rfind(':', name);
  Frame frame{source, "", 0};
  if (name == std::string::npos || colon == std::string::npos || !source.ends_with(")"))
    return frame;
  frame.file = source.substr(0, colon);
  frame.name = source.substr(name + 2, source.size() - name - 3);
  std::from_chars(source.data() + colon + 1, source.data() + name, frame.line);
  return frame;
}

/// The buffer, its node, and the modules around it from the inside out.
std::vector<Frame> framesOf(const Plan &plan, const PlannedBuffer &buffer) {
  std::vector<Frame> frames;
  frames.push_back({std::string(nameOf(buffer.kind)) + ": " + buffer.name, plan.model, 0});
  if (!buffer.source.empty())
    frames.push_back(frameOf(buffer.source));
  for (std::string module = buffer.module; !module.empty();) {
    frames.push_back({module, "module", 0});
    const size_t dot = module.rfind('.');
    module.resize(dot == std::string::npos ? 0 : dot);
  }
  return frames;
}

/// True for what still lies in the arena after the graph's last command.
bool staysIn(const GraphPlan &graph, const PlannedBuffer &buffer) {
  return buffer.end == graph.stepCount && buffer.kind != BufferKind::Workspace;
}

class Snapshot {
public:
  explicit Snapshot(const Plan &plan) : plan(plan) {}

  std::string write() {
    pickle.beginDict();
    pickle.text("segments");
    pickle.beginList();
    for (size_t device = 0; device < plan.graphs.size(); ++device)
      writeSegment(device);
    pickle.endList();
    pickle.text("device_traces");
    pickle.beginList();
    for (const GraphPlan &graph : plan.graphs)
      writeTrace(graph);
    pickle.endList();
    pickle.text("allocator_settings");
    pickle.beginDict();
    pickle.endDict();
    pickle.text("external_annotations");
    pickle.beginList();
    pickle.endList();
    pickle.endDict();
    return pickle.finish();
  }

private:
  void number(const char *key, int64_t value) {
    pickle.text(key);
    pickle.integer(value);
  }
  void word(const char *key, std::string_view value) {
    pickle.text(key);
    pickle.text(value);
  }

  void frames(const std::vector<Frame> &frames) {
    pickle.text("frames");
    pickle.beginList();
    for (const Frame &frame : frames) {
      pickle.beginDict();
      word("name", frame.name);
      word("filename", frame.file);
      number("line", frame.line);
      pickle.endDict();
    }
    pickle.endList();
  }

  /// The arena as it is after the graph's last command: state and what the host reads.
  void writeSegment(size_t device) {
    const GraphPlan &graph = plan.graphs[device];
    std::vector<const PlannedBuffer *> left;
    Bytes allocated = 0;
    for (const PlannedBuffer &buffer : graph.buffers)
      if (buffer.size > 0 && staysIn(graph, buffer)) {
        left.push_back(&buffer);
        allocated += buffer.size;
      }
    std::ranges::sort(left, {}, &PlannedBuffer::offset); // they do not overlap
    pickle.beginDict();
    number("device", static_cast<int64_t>(device));
    number("address", 0);
    number("total_size", plan.arenaBytes);
    for (const char *key : {"allocated_size", "active_size", "requested_size"})
      number(key, allocated);
    number("stream", 0);
    word("segment_type", "large");
    pickle.text("is_expandable");
    pickle.boolean(false);
    frames({{"arena", plan.model, 0}});
    pickle.text("blocks");
    pickle.beginList();
    Bytes top = 0;
    for (const PlannedBuffer *buffer : left) {
      writeGap(top, buffer->offset);
      writeBlock(buffer->offset, buffer->size, "active_allocated", framesOf(plan, *buffer));
      top = buffer->offset + buffer->size;
    }
    writeGap(top, plan.arenaBytes);
    pickle.endList();
    pickle.endDict();
  }

  void writeGap(Bytes begin, Bytes end) {
    if (begin < end)
      writeBlock(begin, end - begin, "inactive", {});
  }

  void writeBlock(Bytes address, Bytes size, const char *state, const std::vector<Frame> &stack) {
    pickle.beginDict();
    number("address", address);
    number("size", size);
    number("requested_size", size);
    word("state", state);
    frames(stack);
    pickle.endDict();
  }

  void writeEvent(const char *action, Bytes address, Bytes size, int64_t nanoseconds,
                  const std::vector<Frame> &stack) {
    pickle.beginDict();
    word("action", action);
    number("addr", address);
    number("size", size);
    number("stream", 0);
    number("time_us", nanoseconds / 1000);
    frames(stack);
    pickle.endDict();
  }

  /// At each step first what has died is freed, then what is born is allocated.
  void writeTrace(const GraphPlan &graph) {
    const Timeline time(graph);
    std::vector<std::vector<const PlannedBuffer *>> born(graph.steps.size() + 1), dead = born;
    for (const PlannedBuffer &buffer : graph.buffers) {
      if (buffer.size == 0 || buffer.begin >= buffer.end)
        continue;
      born[buffer.begin].push_back(&buffer);
      if (!staysIn(graph, buffer))
        dead[buffer.end].push_back(&buffer);
    }
    pickle.beginList();
    writeEvent("segment_alloc", 0, plan.arenaBytes, 0, {{"arena", plan.model, 0}});
    for (size_t step = 0; step <= graph.steps.size(); ++step) {
      for (const PlannedBuffer *buffer : dead[step])
        for (const char *action : {"free_requested", "free_completed"})
          writeEvent(action, buffer->offset, buffer->size, time.begin(step), {});
      for (const PlannedBuffer *buffer : born[step])
        writeEvent("alloc", buffer->offset, buffer->size, time.begin(step),
                   framesOf(plan, *buffer));
    }
    pickle.endList();
  }

  const Plan &plan;
  PickleWriter pickle;
};

} // namespace

std::string toMemoryViz(const Plan &plan) { return Snapshot(plan).write(); }

} // namespace stow
