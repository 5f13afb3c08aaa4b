#include "tests/gpu/driver/State.h"

#include "runtime/base/Concat.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace stow::sim {

Driver &Driver::get() {
  static Driver *driver = [] {
    auto *made = new Driver; // lives as long as the process: calls may come from exit handlers
    made->reset();
    return made;
  }();
  return *driver;
}

CUcontext &currentContext() {
  thread_local CUcontext current = nullptr;
  return current;
}

std::optional<Checks> &expectedAccess() {
  thread_local std::optional<Checks> next;
  return next;
}

static std::string environment(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}

void Driver::forgetObjects() {
  for (CUmodule module : modules)
    delete module;
  for (CUevent event : events)
    delete event;
  for (CUgraph graph : graphs)
    delete graph;
  for (CUgraphExec exec : graphExecs)
    delete exec;
  modules.clear(), events.clear(), graphs.clear(), graphExecs.clear();
  streams.clear(), captures.clear(), copies.clear();
  memory = std::make_unique<DeviceMemory>(memory ? memory->capacity() : 0);
  createStream(0, 0);
}

void Driver::reset() {
  std::lock_guard guard(lock);
  forgetObjects();
  busy.clear(), kept.clear();
  injections.clear(), ptxOfCubin.clear();
  initialized = inHostFunction = checkRaces = false;
  sticky = CUDA_SUCCESS;
  counters = {};
  for (auto &[device, context] : primary)
    context.references = 0;
  lastError.clear();
  onLaunch = nullptr;
  currentContext() = nullptr;
  expectedAccess().reset();
  now = 0;
  version = atoi(environment("STANDIN_DRIVER_VERSION", "13000").c_str());
  devices = atoi(environment("STANDIN_DEVICES", "1").c_str());
  threads = static_cast<unsigned>(atoi(environment("STANDIN_THREADS", "1").c_str()));
  order = strtoull(environment("STANDIN_ORDER", "0").c_str(), nullptr, 10);
  chip = chipFigures(environment("STANDIN_CHIP", "h100"));
  uint64_t bytes = strtoull(environment("STANDIN_MEMORY", "0").c_str(), nullptr, 10);
  memory->setCapacity(bytes ? bytes : chip.memory);
  auto bytesOf = [](const char *name) {
    return strtoull(environment(name, "0").c_str(), nullptr, 10);
  };
  if (const uint64_t shared = bytesOf("STANDIN_SHARED"))
    chip.sharedPerBlockOptin = static_cast<int>(shared);
  contextBytes = bytesOf("STANDIN_CONTEXT_BYTES"), moduleBytes = bytesOf("STANDIN_MODULE_BYTES");
  graphBytes = bytesOf("STANDIN_GRAPH_BYTES");
  granularity = strtoull(environment("STANDIN_GRANULARITY", "1").c_str(), nullptr, 10);
  const std::string path = environment("STANDIN_LOG", "");
  log = {path.empty() ? nullptr : fopen(path.c_str(), "w"), fclose};
  if (const char *failures = getenv("STANDIN_FAIL"))
    injectFromEnvironment(failures);
}

//===-- failures ------------------------------------------------------------------------------===//

/// "cuMemAlloc:1:2,kernel:3:719": function, which of its calls, result.
void Driver::injectFromEnvironment(const char *text) {
  std::string all = text;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = std::min(all.find(',', begin), all.size());
    std::string one = all.substr(begin, end - begin);
    size_t first = one.find(':'), second = one.find(':', first + 1);
    if (second == std::string::npos) {
      fprintf(stderr, "STANDIN_FAIL: expected FUNCTION:NTH:RESULT, found '%s'\n", one.c_str());
      abort();
    }
    fail(one.substr(0, first), static_cast<unsigned>(atoi(one.c_str() + first + 1)),
         static_cast<CUresult>(atoi(one.c_str() + second + 1)));
    begin = end + 1;
  }
}

void Driver::fail(const std::string &function, unsigned nth, CUresult result) {
  injections.push_back({function, nth, result});
}

/// Results after which a context is of no use.
static bool staysFailed(CUresult result) {
  switch (result) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_DEVICE_UNAVAILABLE:
    return true;
  default:
    return false;
  }
}

CUresult Driver::injected(const std::string &function) {
  for (size_t i = 0; i < injections.size(); ++i) {
    Injection &injection = injections[i];
    if (injection.function != function || --injection.left > 0)
      continue;
    CUresult result = injection.result;
    injections.erase(injections.begin() + static_cast<long>(i));
    return refuse({result, function + " was asked to fail by the test"});
  }
  return CUDA_SUCCESS;
}

CUresult Driver::refuse(const Refusal &refusal) {
  lastError = refusal.why;
  if (staysFailed(refusal.result))
    sticky = refusal.result;
  return refusal.result;
}

CUstreamCaptureMode &threadCaptureMode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

/// As cuThreadExchangeStreamCaptureMode documents it: a thread's own captures but relaxed ones forbid such calls, unless the thread itself
/// is relaxed, and so do global captures of others, unless it is told to look at its own alone.
void Driver::requireNoCapture(const char *what) {
  const CUstreamCaptureMode own = threadCaptureMode();
  for (auto &capture : captures)
    if (capture->thread == std::this_thread::get_id()
            ? own != CU_STREAM_CAPTURE_MODE_RELAXED &&
                  capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
            : own == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                  capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
      capture->invalid = true;
      throw Refusal{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                    std::string(what) + " while a stream is being captured"};
    }
}

void Driver::logCall(const char *name, CUresult result) {
  if (!log)
    return;
  fprintf(log.get(), "%s%s%s", name, note.empty() ? "" : " ", note.c_str());
  fprintf(log.get(), result ? " -> %s\n" : "\n", errorName(result));
  fflush(log.get());
}

uint64_t Driver::overheadBytes() const {
  const auto contexts = static_cast<uint64_t>(
      std::ranges::count_if(primary, [](auto &each) { return each.second.references > 0; }));
  return contexts * contextBytes + moduleBytes * modules.size() + graphBytes * graphExecs.size();
}

uint64_t Driver::freeBytes() const {
  const uint64_t used = memory->used() + overheadBytes();
  return memory->capacity() - std::min(memory->capacity(), used);
}

//===-- streams -------------------------------------------------------------------------------===//

CUstream Driver::createStream(unsigned flags, int priority) {
  streams.push_back(std::make_unique<CUstream_st>());
  CUstream stream = streams.back().get();
  stream->flags = flags, stream->priority = priority, stream->number = streamCount++;
  stream->context = streams.size() > 1 ? currentContext() : nullptr;
  return stream;
}

CUstream Driver::requireStream(CUstream stream) {
  if (!stream || stream == CU_STREAM_LEGACY)
    return streams[0].get();
  for (auto &known : streams)
    if (known.get() == stream) {
      require(!stream->context || stream->context == currentContext(),
              "the stream is of another context than the thread's", CUDA_ERROR_INVALID_HANDLE);
      return stream;
    }
  throw Refusal{CUDA_ERROR_INVALID_HANDLE, "the stream does not exist"};
}

/// Work that was submitted still runs.
void Driver::destroyStream(CUstream stream) {
  if (stream->tail && !stream->tail->done)
    append(streams[0].get(), nullptr, {stream->tail});
  std::erase_if(streams, [&](auto &known) { return known.get() == stream; });
}

CommandPtr Driver::append(CUstream stream, std::function<void()> run,
                          std::vector<CommandPtr> alsoAfter) {
  auto command = std::make_shared<Command>();
  command->run = std::move(run);
  command->serial = ++serial;
  command->after = std::move(alsoAfter);
  auto add = [&](const CommandPtr &earlier) {
    if (earlier && !earlier->done)
      command->after.push_back(earlier);
  };
  add(stream->tail);
  for (const CommandPtr &wait : stream->waits)
    add(wait);
  stream->waits.clear();
  for (const CommandPtr &earlier : command->after)
    joinClock(stream->clock, earlier->clock);
  // The default stream and those that are not told otherwise wait for each other.
  CUstream first = streams[0].get();
  if (stream == first) {
    for (auto &other : streams)
      if (!(other->flags & CU_STREAM_NON_BLOCKING))
        add(other->tail), joinClock(stream->clock, other->clock);
  } else if (!(stream->flags & CU_STREAM_NON_BLOCKING)) {
    add(first->tail), joinClock(stream->clock, first->clock);
  }
  number(*command, stream->number, stream->clock);
  stream->clock = command->clock;
  stream->tail = command;
  return command;
}

void joinClock(Clock &into, const Clock &other) {
  into.resize(std::max(into.size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i)
    into[i] = std::max(into[i], other[i]);
}

static uint64_t countIn(const Clock &clock, size_t stream) {
  return stream < clock.size() ? clock[stream] : 0;
}

static bool areOrdered(const Command &a, const Command &b) {
  return countIn(b.clock, a.stream) >= a.count || countIn(a.clock, b.stream) >= b.count;
}

void Driver::number(Command &command, size_t stream, Clock clock) {
  joinClock(clock, known);
  command.stream = stream;
  counts.resize(std::max(counts.size(), stream + 1));
  clock.resize(std::max(clock.size(), stream + 1));
  command.count = clock[stream] = ++counts[stream];
  command.clock = std::move(clock);
}

void Driver::noteCopy(CUstream stream, std::vector<Range> reads, std::vector<Range> writes) {
  if (stream->capture) {
    CUgraphNode_st &node = *stream->capture->graph->nodes.back();
    node.reads = std::move(reads), node.writes = std::move(writes);
    return;
  }
  stream->tail->reads = std::move(reads), stream->tail->writes = std::move(writes);
  noteCopy(stream->tail);
}

/// What the host has waited for comes before all that is submitted from now on.
void Driver::noteCopy(const CommandPtr &copy) {
  constexpr size_t kMostCopies = 64; // without looking which are of use
  if (copies.size() >= kMostCopies)
    std::erase_if(copies, [&](const CommandPtr &old) {
      return old->done && countIn(known, old->stream) >= old->count;
    });
  copies.push_back(copy);
}

static bool doMeet(const std::vector<Range> &a, const std::vector<Range> &b) {
  return std::ranges::any_of(a, [&](const Range &x) {
    return std::ranges::any_of(b,
                               [&](const Range &y) { return x.begin < y.end && y.begin < x.end; });
  });
}

/// Before a command runs: what copies write that nothing orders with it, done or not, is not for it to touch.
void Driver::keepOffCopies(const Command &command) {
  busy.clear(), kept.clear();
  for (const CommandPtr &copy : copies) {
    if (areOrdered(*copy, command))
      continue;
    const std::string name = concat("copy ", copy->count, " of stream ", copy->stream);
    if (doMeet(command.writes, copy->writes) || doMeet(command.writes, copy->reads) ||
        doMeet(command.reads, copy->writes))
      throw Fault(Fault::Kind::Race,
                  concat("race: copy ", command.count, " of stream ", command.stream, " and ", name,
                         " touch the same bytes, and nothing orders the two"));
    for (const auto &[ranges, off] : {std::pair(&copy->writes, &busy), {&copy->reads, &kept}})
      for (Range range : *ranges) {
        range.name = name;
        off->push_back(std::move(range));
      }
  }
}

static std::string nameOfMet(const std::vector<Range> &ranges, uint64_t address, uint64_t bytes) {
  for (const Range &range : ranges)
    if (address < range.end && range.begin < address + bytes)
      return range.name;
  return "";
}

std::string Driver::busyWith(uint64_t address, uint64_t bytes) const {
  return nameOfMet(busy, address, bytes);
}

std::string Driver::keptBy(uint64_t address, uint64_t bytes) const {
  return nameOfMet(kept, address, bytes);
}

void Driver::submit(CUstream stream, CUgraphNodeType type, std::function<void()> run,
                    CUevent records) {
  if (!stream->capture) {
    append(stream, std::move(run));
    return;
  }
  Capture &capture = *stream->capture;
  require(!capture.invalid, "the capture of this stream has failed",
          CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  auto node = std::make_unique<CUgraphNode_st>();
  node->type = type, node->run = std::move(run), node->after = stream->capturedAfter;
  node->records = records;
  node->lane =
      static_cast<size_t>(std::ranges::find(capture.streams, stream) - capture.streams.begin());
  stream->capturedAfter = {capture.graph->nodes.size()};
  capture.graph->nodes.push_back(std::move(node));
}

//===-- commands ------------------------------------------------------------------------------===//

/// What a command comes after, in the order in which it is to run.
std::vector<CommandPtr> Driver::ordered(const Command &command) const {
  std::vector<CommandPtr> all;
  for (const CommandPtr &earlier : command.after)
    if (!earlier->done)
      all.push_back(earlier);
  auto key = [&](const CommandPtr &one) {
    return order == 0   ? ~one->serial
           : order == 1 ? one->serial
                        : (one->serial * 0x9E3779B97F4A7C15 ^ order) * 0xD6E8FEB86659FD93;
  };
  std::sort(all.begin(), all.end(), [&](const CommandPtr &a, const CommandPtr &b) {
    return std::pair(key(a), a->serial) < std::pair(key(b), b->serial);
  });
  return all;
}

static CUresult resultOf(Fault::Kind kind) {
  switch (kind) {
  case Fault::Kind::IllegalAddress:
  case Fault::Kind::Unplanned:
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  case Fault::Kind::Misaligned:
    return CUDA_ERROR_MISALIGNED_ADDRESS;
  case Fault::Kind::IllegalInstruction:
    return CUDA_ERROR_ILLEGAL_INSTRUCTION;
  case Fault::Kind::Assertion:
    return CUDA_ERROR_ASSERT;
  case Fault::Kind::Timeout:
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  default:
    return CUDA_ERROR_LAUNCH_FAILED;
  }
}

void Driver::runCommand(Command &command) {
  command.done = true;
  command.after.clear();
  auto run = std::move(command.run);
  command.run = nullptr;
  if (run && !sticky) {
    try {
      keepOffCopies(command);
      run();
      busy.clear(), kept.clear();
    } catch (const NotYet &) {
      busy.clear(), kept.clear();
      command.done = false;
      command.run = std::move(run);
      return;
    } catch (const Fault &fault) {
      busy.clear(), kept.clear();
      throw Refusal{resultOf(fault.kind), fault.what()};
    }
  }
  command.finished = now;
}

/// The first to run of a command that is not done and all that it comes after.
CommandPtr Driver::nextOf(const CommandPtr &command) const {
  CommandPtr next = command;
  for (auto before = ordered(*next); !before.empty(); before = ordered(*next))
    next = before[0];
  return next;
}

bool Driver::step(const CommandPtr &command) {
  if (command && command->done)
    joinClock(known, command->clock);
  if (!command || command->done)
    return false;
  runCommand(*nextOf(command));
  return true;
}

void Driver::runReady(const char *behind) {
  try {
    for (auto &stream : streams)
      while (stream->tail && !stream->tail->done) {
        const CommandPtr next = nextOf(stream->tail);
        runCommand(*next);
        if (!next->done)
          break; // it waits for another process
      }
  } catch (const Refusal &refusal) {
    throw Refusal{refusal.result,
                  concat(behind, " while work is not done, which fails then: ", refusal.why)};
  }
}

void Driver::finish(const CommandPtr &command) {
  if (!command)
    return;
  joinClock(known, command->clock);
  std::vector<CommandPtr> path = {command};
  while (!path.empty()) {
    CommandPtr top = path.back();
    if (top->done) {
      path.pop_back();
      continue;
    }
    auto before = ordered(*top);
    if (before.empty())
      runCommand(*top);
    else
      path.push_back(before[0]);
  }
}

void Driver::finishStream(CUstream stream) { finish(stream->tail); }

void Driver::finishAll() {
  Command all;
  for (auto &stream : streams)
    if (stream->tail && !stream->tail->done)
      all.after.push_back(stream->tail);
  for (const CommandPtr &tail : ordered(all))
    finish(tail);
  for (auto &stream : streams)
    joinClock(known, stream->clock);
}

} // namespace stow::sim
