// Streams, events, host functions.
#include "runtime/base/Concat.h"
#include "tests/gpu/driver/State.h"

#include <algorithm>
#include <utility>

using namespace stow::sim;
using stow::concat;

namespace {

void requireEvent(Driver &driver, CUevent event) {
  require(driver.events.count(event), "the event does not exist", CUDA_ERROR_INVALID_HANDLE);
}

/// Waiting for a stream that is recorded fails, and the recording with it.
void requireNotCapturing(CUstream stream, const char *what) {
  if (!stream->capture)
    return;
  stream->capture->invalid = true;
  throw Refusal{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                std::string(what) + " of a stream that is captured"};
}

/// An event of a capture stands for nodes of its graph.
void requireNotCaptured(CUevent event, const char *what) {
  if (auto capture = event->capture.lock()) {
    capture->invalid = true;
    throw Refusal{CUDA_ERROR_CAPTURED_EVENT, std::string(what) + " of an event that was captured"};
  }
}

void record(Driver &driver, CUevent event, CUstream stream, unsigned flags = 0) {
  requireEvent(driver, event);
  require((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) == 0,
          "flags that cuEventRecordWithFlags does not have");
  stream = driver.requireStream(stream);
  driver.note = concat("event=", event->number, " stream=", stream->number);
  if (flags & CU_EVENT_RECORD_EXTERNAL) {
    require(stream->capture != nullptr, "an external record of an event outside of a capture");
    event->capture.reset();
    driver.submit(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, nullptr, event);
    return;
  }
  if (stream->capture) {
    event->capture = stream->capture;
    event->capturedAfter = stream->capturedAfter;
    event->command = nullptr;
    return;
  }
  event->capture.reset();
  event->command = driver.append(stream, nullptr);
}

void wait(Driver &driver, CUstream stream, CUevent event) {
  requireEvent(driver, event);
  stream = driver.requireStream(stream);
  auto capture = event->capture.lock();
  if (!capture) {
    require(!stream->capture, "a captured stream waits for an event from outside of the capture",
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    driver.note = concat("event=", event->number, " stream=", stream->number);
    if (!event->command)
      return;
    joinClock(stream->clock, event->command->clock);
    if (!event->command->done)
      stream->waits.push_back(event->command);
    return;
  }
  require(!stream->capture || stream->capture == capture, "the event is of another capture",
          CUDA_ERROR_STREAM_CAPTURE_MERGE);
  stream->capture = capture; // from here on it is captured too
  if (std::ranges::find(capture->streams, stream) == capture->streams.end())
    capture->streams.push_back(stream);
  for (size_t node : event->capturedAfter)
    if (std::find(stream->capturedAfter.begin(), stream->capturedAfter.end(), node) ==
        stream->capturedAfter.end())
      stream->capturedAfter.push_back(node);
}

} // namespace

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return call("cuStreamCreate", Needs::Context, [&](Driver &driver) {
    require(flags == CU_STREAM_DEFAULT || flags == CU_STREAM_NON_BLOCKING,
            "flags that cuStreamCreate does not have");
    *stream = driver.createStream(flags, 0);
  });
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  return call("cuStreamCreateWithPriority", Needs::Context,
              [&](Driver &driver) { *stream = driver.createStream(flags, priority); });
}

CUresult cuStreamDestroy(CUstream stream) {
  return call("cuStreamDestroy", Needs::Context, [&](Driver &driver) {
    require(stream && driver.requireStream(stream) != driver.streams[0].get(),
            "the default stream cannot be destroyed", CUDA_ERROR_INVALID_HANDLE);
    driver.destroyStream(stream);
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", Needs::Context, [&](Driver &driver) {
    stream = driver.requireStream(stream);
    requireNotCapturing(stream, "cuStreamSynchronize");
    driver.counters.synchronizations++;
    driver.finishStream(stream);
    for (const CommandPtr &waited : std::exchange(stream->waits, {}))
      driver.finish(waited);
  });
}

/// Each question lets one more command run, so that a program that polls comes to an end.
CUresult cuStreamQuery(CUstream stream) {
  bool ready = true;
  CUresult result = call("cuStreamQuery", Needs::Context, [&](Driver &driver) {
    stream = driver.requireStream(stream);
    requireNotCapturing(stream, "cuStreamQuery");
    ready = !driver.step(stream->tail);
  });
  return result ? result : ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return call("cuStreamWaitEvent", Needs::Context, [&](Driver &driver) {
    require(flags == CU_EVENT_WAIT_DEFAULT,
            "waits other than the default, which the stand-in does not know");
    wait(driver, stream, event);
  });
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
  return call("cuStreamGetPriority", Needs::Context,
              [&](Driver &driver) { *priority = driver.requireStream(stream)->priority; });
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
  return call("cuStreamGetFlags", Needs::Context,
              [&](Driver &driver) { *flags = driver.requireStream(stream)->flags; });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user) {
  return call("cuLaunchHostFunc", Needs::Context, [&](Driver &driver) {
    driver.submit(driver.requireStream(stream), CU_GRAPH_NODE_TYPE_HOST, [=, &driver] {
      driver.inHostFunction = true;
      function(user);
      driver.inHostFunction = false;
      driver.now += 2e-6; // as long as anything takes at least
    });
  });
}

//===-- events --------------------------------------------------------------------------------===//

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  return call("cuEventCreate", Needs::Context, [&](Driver &driver) {
    require((flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING)) == 0,
            "flags other than those of events of one process");
    *event = new CUevent_st;
    (*event)->flags = flags;
    (*event)->number = ++driver.eventCount;
    driver.events.insert(*event);
  });
}

CUresult cuEventDestroy(CUevent event) {
  return call("cuEventDestroy", Needs::Context, [&](Driver &driver) {
    requireEvent(driver, event);
    driver.events.erase(event);
    delete event;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return call("cuEventRecord", Needs::Context,
              [&](Driver &driver) { record(driver, event, stream); });
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return call("cuEventRecordWithFlags", Needs::Context,
              [&](Driver &driver) { record(driver, event, stream, flags); });
}

CUresult cuEventSynchronize(CUevent event) {
  return call("cuEventSynchronize", Needs::Context, [&](Driver &driver) {
    requireEvent(driver, event);
    requireNotCaptured(event, "cuEventSynchronize");
    driver.note = concat("event=", event->number);
    driver.counters.synchronizations++;
    driver.counters.eventSynchronizations++;
    driver.finish(event->command);
  });
}

CUresult cuEventQuery(CUevent event) {
  bool ready = true;
  CUresult result = call("cuEventQuery", Needs::Context, [&](Driver &driver) {
    requireEvent(driver, event);
    requireNotCaptured(event, "cuEventQuery");
    ready = !driver.step(event->command);
  });
  return result ? result : ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/// In simulated time: that of the commands between them, as if one ran at a time.
CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  bool ready = true;
  CUresult result = call("cuEventElapsedTime", Needs::Context, [&](Driver &driver) {
    requireEvent(driver, from), requireEvent(driver, to);
    for (CUevent event : {from, to})
      require(event->command && !(event->flags & CU_EVENT_DISABLE_TIMING),
              "an event that was not recorded, or takes no time", CUDA_ERROR_INVALID_HANDLE);
    ready = from->command->done && to->command->done;
    if (ready)
      *milliseconds = static_cast<float>(1e3 * (to->command->finished - from->command->finished));
  });
  return result ? result : ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

// The name of before CUDA 12.8, which drivers still have.
#ifdef cuEventElapsedTime
#undef cuEventElapsedTime
extern "C"
    __attribute__((visibility("default"))) CUresult cuEventElapsedTime(float *milliseconds,
                                                                       CUevent from, CUevent to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}
#endif
