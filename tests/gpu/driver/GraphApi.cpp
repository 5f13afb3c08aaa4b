// Streams recorded as graphs, and their launches.
#include "runtime/base/Concat.h"
#include "tests/gpu/driver/State.h"

#include <algorithm>

using namespace stow::sim;
using stow::concat;

namespace {

/// Whether everything that was captured comes before the end of the origin stream.
bool isJoined(const CUgraph_st &graph, const std::vector<size_t> &end) {
  std::vector<bool> reached(graph.nodes.size());
  std::vector<size_t> open = end;
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    if (reached[node])
      continue;
    reached[node] = true;
    open.insert(open.end(), graph.nodes[node]->after.begin(), graph.nodes[node]->after.end());
  }
  return std::all_of(reached.begin(), reached.end(), [](bool is) { return is; });
}

void endCapture(Driver &driver, CUstream stream, CUgraph *graph) {
  *graph = nullptr;
  auto capture = stream->capture;
  require(capture != nullptr, "the stream is not captured", CUDA_ERROR_ILLEGAL_STATE);
  require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
              capture->thread == std::this_thread::get_id(),
          "another thread began the capture", CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  bool unmatched = capture->origin != stream;
  bool joined = isJoined(*capture->graph, stream->capturedAfter);
  for (CUstream each : capture->streams)
    for (auto &known : driver.streams)
      if (known.get() == each)
        each->capture = nullptr, each->capturedAfter.clear();
  std::erase(driver.captures, capture);
  require(!unmatched, "the capture began in another stream", CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  require(!capture->invalid, "a call that is not allowed during a capture was made",
          CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  require(joined, "work of a forked stream was not waited for by the first",
          CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  capture->graph->lanes = capture->streams.size();
  *graph = capture->graph.release();
  driver.graphs.insert(*graph);
  driver.counters.captures++;
}

void requireGraph(Driver &driver, CUgraph graph) {
  require(driver.graphs.count(graph), "the graph does not exist", CUDA_ERROR_INVALID_HANDLE);
}

void requireExec(Driver &driver, CUgraphExec exec) {
  require(driver.graphExecs.count(exec), "the executable graph does not exist",
          CUDA_ERROR_INVALID_HANDLE);
}

void instantiate(Driver &driver, CUgraphExec *exec, CUgraph graph) {
  requireGraph(driver, graph);
  driver.requireNoCapture("cuGraphInstantiate");
  driver.note = concat("nodes=", graph->nodes.size());
  *exec = new CUgraphExec_st;
  for (auto &node : graph->nodes)
    (*exec)->nodes.push_back(*node);
  for (size_t lane = 1; lane < graph->lanes; ++lane)
    (*exec)->streams.push_back(driver.newStreamNumber());
  driver.graphExecs.insert(*exec);
  driver.counters.instantiations++;
}

/// One command per node; what nothing orders in the graph nothing orders here.
void launch(Driver &driver, CUgraphExec exec, CUstream stream) {
  requireExec(driver, exec);
  stream = driver.requireStream(stream);
  require(!stream->capture, "graphs inside of graphs are not offered by the stand-in",
          CUDA_ERROR_NOT_SUPPORTED);
  driver.counters.graphLaunches++;
  driver.note = concat("stream=", stream->number);
  std::vector<CommandPtr> before;
  if (exec->last && !exec->last->done)
    before.push_back(exec->last);
  CommandPtr begin = driver.append(stream, nullptr, before);
  std::vector<CommandPtr> commands;
  std::vector<bool> isLast(exec->nodes.size(), true);
  for (const CUgraphNode_st &node : exec->nodes) {
    auto command = std::make_shared<Command>();
    command->run = node.run;
    command->serial = begin->serial + commands.size();
    command->after = {begin};
    if (node.records) {
      require(driver.events.count(node.records),
              "the graph records an event that does not exist any more", CUDA_ERROR_INVALID_HANDLE);
      node.records->command = command;
    }
    Clock clock = begin->clock;
    for (size_t earlier : node.after) {
      command->after.push_back(commands.at(earlier));
      joinClock(clock, commands[earlier]->clock);
      isLast[earlier] = false;
    }
    driver.number(*command, node.lane == 0 ? stream->number : exec->streams.at(node.lane - 1),
                  std::move(clock));
    command->reads = node.reads, command->writes = node.writes;
    if (!node.reads.empty() || !node.writes.empty())
      driver.noteCopy(command);
    commands.push_back(command);
  }
  std::vector<CommandPtr> ends;
  for (size_t i = 0; i < commands.size(); ++i)
    if (isLast[i])
      ends.push_back(commands[i]);
  for (const CommandPtr &end : ends)
    joinClock(stream->clock, end->clock);
  exec->last = driver.append(stream, nullptr, ends);
}

} // namespace

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture", Needs::Context, [&](Driver &driver) {
    stream = driver.requireStream(stream);
    require(stream != driver.streams[0].get(), "the default stream cannot be captured",
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    require(!stream->capture, "the stream is captured already", CUDA_ERROR_ILLEGAL_STATE);
    auto capture = std::make_shared<Capture>();
    capture->origin = stream, capture->mode = mode;
    capture->streams.push_back(stream);
    stream->capture = capture;
    stream->capturedAfter.clear();
    driver.captures.push_back(capture);
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return call("cuStreamEndCapture", Needs::Context,
              [&](Driver &driver) { endCapture(driver, driver.requireStream(stream), graph); });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  return call("cuStreamIsCapturing", Needs::Context, [&](Driver &driver) {
    stream = driver.requireStream(stream);
    *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  return call("cuThreadExchangeStreamCaptureMode", Needs::Context,
              [&](Driver &) { std::swap(threadCaptureMode(), *mode); });
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  return call("cuGraphInstantiate", Needs::Context, [&](Driver &driver) {
    require(flags == 0, "flags of cuGraphInstantiate, of which the stand-in knows none");
    instantiate(driver, exec, graph);
  });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return call("cuGraphLaunch", Needs::Context,
              [&](Driver &driver) { launch(driver, exec, stream); });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return call("cuGraphUpload", Needs::Context, [&](Driver &driver) {
    requireExec(driver, exec);
    driver.requireStream(stream);
  });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return call("cuGraphGetNodes", Needs::Context, [&](Driver &driver) {
    requireGraph(driver, graph);
    size_t room = nodes ? *count : 0;
    *count = graph->nodes.size();
    for (size_t i = 0; i < std::min(room, *count); ++i)
      nodes[i] = graph->nodes[i].get();
  });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  return call("cuGraphNodeGetType", Needs::Context, [&](Driver &) { *type = node->type; });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return call("cuGraphDestroy", Needs::Context, [&](Driver &driver) {
    requireGraph(driver, graph);
    driver.graphs.erase(graph);
    delete graph;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return call("cuGraphExecDestroy", Needs::Context, [&](Driver &driver) {
    requireExec(driver, exec);
    driver.graphExecs.erase(exec);
    delete exec;
  });
}

/// Graphs without allocations of their own take no device memory here.
CUresult cuDeviceGetGraphMemAttribute(CUdevice, CUgraphMem_attribute, void *value) {
  return call("cuDeviceGetGraphMemAttribute", Needs::Driver,
              [&](Driver &) { *static_cast<cuuint64_t *>(value) = 0; });
}

CUresult cuDeviceGraphMemTrim(CUdevice) {
  return call("cuDeviceGraphMemTrim", Needs::Driver, [](Driver &) {});
}
