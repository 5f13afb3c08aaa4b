#include "runtime/cuda/SlowMemory.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cstdio>

namespace stow::cuda {

namespace {

/// What belongs to a file on a disk alone.
void requireNoFolder(const SlowMemoryOptions &options) {
  if (!options.folder.empty())
    throw Error::badInput("--offload=" + options.folder +
                          " names a folder, and what travels on a GPU does so to pinned memory of "
                          "the host; leave it out");
  if (options.pace.outBytesPerSecond > 0)
    throw Error::badInput("--offload-bandwidth holds copies to a file back, and what travels on a "
                          "GPU does so as fast as its link is; leave it out");
}

/// "57.6".
std::string threeDigits(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

} // namespace

SlowMemory::SlowMemory(const Driver &driver, const Program &program,
                       const SlowMemoryOptions &options, Address arena)
    : driver(driver), time(options.pace.time), arena(arena), size(program.slowBytes) {
  requireNoFolder(options);
  try {
    void *bytes = nullptr;
    if (const Result result = driver.memHostAlloc(&bytes, static_cast<size_t>(size), 0);
        result == kOutOfMemory)
      throw Error::badInput("slow memory takes " + formatBytesExact(size) +
                            " of the host's memory, pinned, and the driver has no such piece of "
                            "it; end other processes, raise what may be locked (ulimit -l), or "
                            "compile with a smaller --host-memory");
    else
      driver.require(result, "taking pinned memory of " + formatBytesExact(size));
    memory = static_cast<char *>(bytes);
    for (Stream *made : {&out, &in})
      driver.require(driver.streamCreate(made, kStreamNonBlocking), "making a stream for copies");
    started = makeEvent(kEventDisableTiming);
    const std::vector<SlowState> state = slowStateOf(program);
    for (const GraphProgram &graph : program.graphs) {
      GraphCopies &known = graphs.emplace_back();
      for (const SlowCopy &copy : slowCopiesOf(graph, size, state)) {
        known.copies.push_back({copy, graph.commands[copy.start].name, nullptr});
        known.copies.back().ended = makeEvent(kEventDisableTiming);
        (copy.isOut ? known.bytesOut : known.bytesIn) += copy.bytes;
      }
    }
  } catch (...) {
    release();
    throw;
  }
}

SlowMemory::~SlowMemory() { release(); }

/// Gives everything back; results do not matter any more.
void SlowMemory::release() {
  for (const GraphCopies &graph : graphs)
    for (const Copy &copy : graph.copies)
      for (Event event : {copy.ended, copy.timing[0], copy.timing[1]})
        if (event)
          driver.eventDestroy(event);
  if (started)
    driver.eventDestroy(started);
  for (Stream made : {out, in})
    if (made)
      driver.streamDestroy(made);
  if (memory)
    driver.memFreeHost(memory);
}

Event SlowMemory::makeEvent(unsigned flags) const {
  Event event = nullptr;
  driver.require(driver.eventCreate(&event, flags), "making an event for copies");
  return event;
}

void SlowMemory::start(size_t graph, size_t copy, Stream stream, bool isTimed) {
  Copy &known = copyOf(graph, copy);
  known.isPut = false;
  if (time == CopyTime::Late)
    return;
  put(graph, copy, stream, isTimed);
  if (time == CopyTime::Early)
    driver.require(driver.streamWaitEvent(stream, known.ended, 0), "waiting for a copy");
}

void SlowMemory::await(size_t graph, size_t copy, Stream stream, bool isTimed) {
  Copy &known = copyOf(graph, copy);
  if (!known.isPut)
    put(graph, copy, stream, isTimed);
  driver.require(driver.streamWaitEvent(stream, known.ended, 0), "waiting for a copy");
}

/// Puts the copy on its lane, behind what `stream` has so far and what it fetches.
void SlowMemory::put(size_t graph, size_t copy, Stream stream, bool isTimed) {
  Copy &known = copyOf(graph, copy);
  const SlowCopy &what = known.what;
  const Stream lane = what.isOut ? out : in;
  if (what.source && !copyOf(graph, *what.source).isPut) // copies are late
    put(graph, *what.source, stream, isTimed);
  driver.require(driver.eventRecord(started, stream), "recording an event");
  driver.require(driver.streamWaitEvent(lane, started, 0), "letting a copy wait for its step");
  if (what.source)
    driver.require(driver.streamWaitEvent(lane, copyOf(graph, *what.source).ended, 0),
                   "letting a copy wait for another");
  if (isTimed) {
    makeTimingEvents(known);
    driver.require(driver.eventRecord(known.timing[0], lane), "recording an event");
  }
  submit(known, lane);
  if (isTimed)
    driver.require(driver.eventRecord(known.timing[1], lane), "recording an event");
  driver.require(driver.eventRecord(known.ended, lane), "recording an event");
  known.isPut = true;
}

void SlowMemory::makeTimingEvents(Copy &copy) const {
  if (!copy.timing[0])
    for (Event &event : copy.timing)
      event = makeEvent(0);
}

void SlowMemory::submit(const Copy &copy, Stream lane) const {
  const SlowCopy &what = copy.what;
  const Address place = arena + static_cast<Address>(what.offset);
  char *slow = memory + what.slowOffset;
  const auto bytes = static_cast<size_t>(what.bytes);
  driver.require(what.isOut ? driver.memcpyDtoHAsync(slow, place, bytes, lane)
                            : driver.memcpyHtoDAsync(place, slow, bytes, lane),
                 concat("a copy of ", formatBytesExact(what.bytes), " of node '", copy.node,
                        what.isOut ? "' to slow memory" : "' from slow memory"));
}

/// The least of a few times.
double SlowMemory::secondsAlone(Copy &copy) {
  constexpr int kRuns = 4;
  const Stream lane = copy.what.isOut ? out : in;
  makeTimingEvents(copy);
  double least = 0;
  for (int i = 0; i < kRuns; ++i) {
    driver.require(driver.eventRecord(copy.timing[0], lane), "recording an event");
    submit(copy, lane);
    driver.require(driver.eventRecord(copy.timing[1], lane), "recording an event");
    driver.require(driver.eventSynchronize(copy.timing[1]), "timing a copy");
    const double seconds = elapsed(copy);
    least = i == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

double SlowMemory::elapsed(const Copy &copy) const {
  float milliseconds = 0;
  driver.require(driver.eventElapsedTime(&milliseconds, copy.timing[0], copy.timing[1]),
                 "timing a copy of node '" + copy.node + "'");
  return 1e-3 * milliseconds;
}

std::vector<std::string> SlowMemory::slowerThanPlanned(const Program &program) {
  constexpr double kWorthAWord = 1.25; // of what was planned
  std::vector<std::string> sentences;
  for (const bool isOut : {true, false}) {
    Copy *largest = nullptr;
    double planned = 0;
    for (size_t g = 0; g < graphs.size(); ++g) {
      const GraphPlan *plan =
          findGraph(program.plan, program.graphs[g].role, program.graphs[g].shape);
      for (Copy &copy : graphs[g].copies)
        for (const PlannedCopy &known :
             plan && plan->copies ? plan->copies->each : std::vector<PlannedCopy>())
          if (copy.what.isOut == isOut && known.isOut == isOut && known.seconds > 0 &&
              known.start == static_cast<int64_t>(copy.what.start) &&
              (!largest || copy.what.bytes > largest->what.bytes))
            largest = &copy, planned = known.seconds;
    }
    const double seconds = largest ? secondsAlone(*largest) : 0;
    if (seconds <= kWorthAWord * planned)
      continue;
    const double gigabytes = 1e-9 * static_cast<double>(largest->what.bytes);
    sentences.push_back(concat(
        "a copy of ", formatBytesExact(largest->what.bytes), isOut ? " to" : " from",
        " the host's memory passes ", threeDigits(gigabytes / seconds), " GB/s here and ",
        threeDigits(gigabytes / planned), " as planned, so that steps may wait for it; --link=",
        threeDigits(gigabytes / seconds), " when compiling plans for that"));
  }
  return sentences;
}

double SlowMemory::seconds(size_t graph, size_t copy) const {
  const Copy &known = graphs.at(graph).copies.at(copy);
  if (!known.timing[0])
    return 0;
  return elapsed(known);
}

void SlowMemory::addTraffic(size_t graph) {
  bytesOut += graphs.at(graph).bytesOut;
  bytesIn += graphs.at(graph).bytesIn;
}

SlowTraffic SlowMemory::traffic() const {
  return {"pinned memory of the host", size, bytesOut, bytesIn};
}

} // namespace stow::cuda
