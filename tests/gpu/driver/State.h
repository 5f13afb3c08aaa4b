// The state behind the driver's functions.
//
// Asynchronous work is a graph of commands that runs only when somebody waits for it, and then only
// what that wait needs: a program that forgot to wait for an event finds the work not done, or done
// too late. Everything runs inside calls, under one lock.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include "tests/gpu/driver/StandIn.h"
#include "tests/gpu/execute/Execute.h"
#include "tests/gpu/execute/LoadedModule.h"

#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace stow::sim {

/// What a call returns instead of success; thrown inside calls.
struct Refusal {
  CUresult result;
  std::string why;
};

/// Thrown by work that is not done yet, and is to be run again.
struct NotYet {};

struct ChipFigures {
  std::string name;
  int major = 0, minor = 0, multiprocessors = 0, clockKHz = 0, memoryClockKHz = 0;
  uint64_t memory = 0;
  int l2Bytes = 0, sharedPerBlock = 0, sharedPerBlockOptin = 0, sharedReserved = 0;
  int registersPerBlock = 0, threadsPerMultiprocessor = 0, blocksPerMultiprocessor = 0;
};

/// Figures of a chip of codegen/cuda/chips. Throws Refusal for another name.
ChipFigures chipFigures(const std::string &name);

/// How much of each stream, by its number, comes before something: counts of its commands. Streams that a capture forks have
/// numbers of their own in the executable graph.
using Clock = std::vector<uint64_t>;
void joinClock(Clock &into, const Clock &other);

/// Work that runs once what it comes after is done.
struct Command {
  std::vector<std::shared_ptr<Command>> after;
  std::function<void()> run; ///< empty: only an order
  uint64_t serial = 0;
  bool done = false;
  double finished = 0; ///< simulated seconds

  /// What is certain to come before it, itself included, whatever has run meanwhile; its stream, and its number there.
  Clock clock;
  size_t stream = 0;
  uint64_t count = 0;
  std::vector<Range> reads, writes; ///< of a copy
};
using CommandPtr = std::shared_ptr<Command>;

} // namespace stow::sim

// The driver's opaque types.
struct CUctx_st {
  CUdevice device = 0;
  int references = 0;
};

struct CUmod_st {
  std::unique_ptr<stow::sim::LoadedModule> loaded;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
  CUmodule module = nullptr;
  const stow::sim::Kernel *kernel = nullptr;
  int maxDynamicShared = 0;
};

struct CUgraphNode_st {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::function<void()> run;
  std::vector<size_t> after; ///< numbers of nodes
  CUevent records = nullptr; ///< by every launch, as seen from outside of the graph
  size_t lane = 0;           ///< stream that it was captured on, among the capture's
  std::vector<stow::sim::Range> reads, writes; ///< of a copy
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  size_t lanes = 1;
};

struct CUgraphExec_st {
  std::vector<CUgraphNode_st> nodes;
  std::vector<size_t> streams; ///< numbers of its lanes but the first, which is that of the launch
  stow::sim::CommandPtr last;  ///< of the launch before: launches of one graph do not overlap
};

namespace stow::sim {

/// Streams that are being recorded together.
struct Capture {
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread = std::this_thread::get_id(); ///< that began it
  std::vector<CUstream> streams;                       ///< the origin first
  bool invalid = false;
};

} // namespace stow::sim

struct CUstream_st {
  unsigned flags = 0;
  int priority = 0;
  uint64_t number = 0;
  CUcontext context = nullptr; ///< null: the default stream, which every context has
  stow::sim::CommandPtr tail;
  std::vector<stow::sim::CommandPtr> waits; ///< of events, for the next command
  stow::sim::Clock clock;                   ///< of what the next command comes after
  std::shared_ptr<stow::sim::Capture> capture;
  std::vector<size_t> capturedAfter; ///< nodes that the next one comes after
};

struct CUevent_st {
  unsigned flags = 0;
  uint64_t number = 0;
  stow::sim::CommandPtr command; ///< null: never recorded
  std::weak_ptr<stow::sim::Capture> capture;
  std::vector<size_t> capturedAfter;
};

namespace stow::sim {

class Driver {
public:
  static Driver &get();
  /// Reads the environment; everything as at the start.
  void reset();
  /// Without memory, modules, streams, events and graphs.
  void forgetObjects();

  std::recursive_mutex lock;
  bool initialized = false, inHostFunction = false;
  int version = 13000, devices = 1;
  unsigned threads = 1;
  ChipFigures chip;
  std::unique_ptr<DeviceMemory> memory;
  std::map<CUdevice, CUctx_st> primary; ///< contexts, never moved: threads keep their addresses
  CUctx_st &primaryOf(CUdevice device) {
    return primary.try_emplace(device, CUctx_st{device}).first->second;
  }
  StandInCounters counters{};
  bool checkRaces = false;
  uint64_t order = 0;
  StandInOnLaunch onLaunch = nullptr;
  void *onLaunchUser = nullptr;
  std::string lastError;
  std::string note;               ///< for the log: what the call at hand was about
  CUresult sticky = CUDA_SUCCESS; ///< what the device did not survive
  std::map<std::string, std::string> ptxOfCubin;
  double now = 0; ///< simulated seconds
  std::vector<std::shared_ptr<Capture>> captures;

  //===-- calls -------------------------------------------------------------------------------===//

  /// A failure that a test asked for.
  CUresult injected(const std::string &function);
  void fail(const std::string &function, unsigned nth, CUresult result);
  CUresult refuse(const Refusal &refusal);
  /// Global captures forbid calls that may wait or allocate.
  void requireNoCapture(const char *what);
  /// Writes the call to the file that STANDIN_LOG names.
  void logCall(const char *name, CUresult result);

  /// What context, modules and executable graphs take on a real device, as the test says.
  uint64_t contextBytes = 0, moduleBytes = 0, graphBytes = 0;
  uint64_t granularity = 1; ///< of memory apart from its addresses; 0: there is none
  uint64_t overheadBytes() const;
  uint64_t freeBytes() const;

  //===-- commands ----------------------------------------------------------------------------===//

  CUstream createStream(unsigned flags, int priority);
  CUstream requireStream(CUstream stream);
  void destroyStream(CUstream stream);
  /// Appends work to a stream, or a node to the graph that it records.
  void submit(CUstream stream, CUgraphNodeType type, std::function<void()> run,
              CUevent records = nullptr);
  /// Gives a command its place in the order of a stream, behind all that `clock` holds.
  void number(Command &command, size_t stream, Clock clock);
  /// For the commands of a lane of a graph.
  size_t newStreamNumber() { return streamCount++; }
  /// The last command of the stream is a copy of these bytes: whatever nothing orders with it keeps off what it
  /// writes.
  void noteCopy(CUstream stream, std::vector<Range> reads, std::vector<Range> writes);
  void noteCopy(const CommandPtr &copy);
  /// "copy 12 of stream 1" of bytes that the command at hand may not touch; empty: none.
  std::string busyWith(uint64_t address, uint64_t bytes) const;
  const std::vector<Range> &busyBytes() const { return busy; }
  /// The same of bytes that the command at hand may read and not write, since a copy reads them.
  std::string keptBy(uint64_t address, uint64_t bytes) const;
  const std::vector<Range> &keptBytes() const { return kept; }
  CommandPtr append(CUstream stream, std::function<void()> run,
                    std::vector<CommandPtr> alsoAfter = {});
  /// Runs `command` and all that it comes after.
  void finish(const CommandPtr &command);
  void finishStream(CUstream stream);
  void finishAll();
  /// Runs one command that can run; false: none is left.
  bool step(const CommandPtr &command);
  /// Runs what can run of all work, as a device may at any time, and nobody has waited for it then. Throws a refusal
  /// that says what `behind` took from work.
  void runReady(const char *behind);

  //===-- objects -----------------------------------------------------------------------------===//

  uint64_t eventCount = 0;
  std::vector<std::unique_ptr<CUstream_st>> streams; ///< the first is the default stream
  std::set<CUevent> events;
  std::set<CUmodule> modules;
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> graphExecs;

private:
  void runCommand(Command &command);
  CommandPtr nextOf(const CommandPtr &command) const;
  void keepOffCopies(const Command &command);
  void injectFromEnvironment(const char *text);
  std::vector<CommandPtr> ordered(const Command &command) const;
  struct Injection {
    std::string function;
    unsigned left;
    CUresult result;
  };
  std::vector<Injection> injections;
  Clock known, counts;            ///< what the host has waited for; commands so far; by stream
  std::vector<CommandPtr> copies; ///< those that the host has not waited for, and others
  std::vector<Range> busy, kept;  ///< what the command at hand has to keep off, or may not write
  uint64_t serial = 0, streamCount = 0;
  std::unique_ptr<FILE, int (*)(FILE *)> log{nullptr, nullptr};
};

/// What the next launch of this thread may touch.
std::optional<Checks> &expectedAccess();

/// Which state a call needs.
enum class Needs { Nothing, Driver, Context };

/// Whether a context is current in this thread.
CUcontext &currentContext();
/// What cuThreadExchangeStreamCaptureMode set in this thread.
CUstreamCaptureMode &threadCaptureMode();

/// The body of a driver function, after the failures that tests ask for.
template <class Body>
CUresult attempt(Driver &driver, const char *name, Needs needs, const Body &body) {
  if (driver.inHostFunction)
    return CUDA_ERROR_NOT_PERMITTED;
  if (CUresult result = driver.injected(name))
    return result;
  if (needs != Needs::Nothing && !driver.initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::Context && !currentContext())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (needs == Needs::Context && driver.sticky)
    return driver.sticky;
  try {
    body(driver);
    return CUDA_SUCCESS;
  } catch (const Refusal &refusal) {
    return driver.refuse(refusal);
  } catch (const std::bad_alloc &) {
    return driver.refuse({CUDA_ERROR_OUT_OF_MEMORY, std::string(name) + ": no memory"});
  }
}

/// Runs the body of driver function `name` under the lock.
template <class Body> CUresult call(const char *name, Needs needs, Body body) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  driver.note.clear();
  CUresult result = attempt(driver, name, needs, body);
  driver.logCall(name, result);
  return result;
}

/// Refuses unless `holds`.
inline void require(bool holds, const std::string &why,
                    CUresult result = CUDA_ERROR_INVALID_VALUE) {
  if (!holds)
    throw Refusal{result, why};
}

const char *errorName(CUresult result);

} // namespace stow::sim
