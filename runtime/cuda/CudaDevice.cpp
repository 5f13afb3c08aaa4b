#include "runtime/cuda/CudaDevice.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/ChipAtHand.h"
#include "runtime/cuda/Convolutions.h"
#include "runtime/cuda/LoadKernels.h"
#include "runtime/cuda/ProductEpilogue.h"
#include "runtime/cuda/Products.h"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

namespace stow::cuda {

namespace {

/// Blocks in flight per multiprocessor: 2,048 threads of it in blocks of 256, twice, so that the next
/// block is ready when one ends.
constexpr int64_t kBlocksPerMultiprocessor = 16;

/// The driver's handle of GPU `number`.
int chooseGpu(const Driver &driver, int64_t number) {
  int count = 0, device = 0;
  driver.require(driver.deviceGetCount(&count), "counting GPUs");
  if (number < 0 || number >= count)
    throw Error::badInput(
        count == 1
            ? concat("GPU ", number, " is asked for, and the CUDA driver has GPU 0 alone")
            : concat("GPU ", number, " is asked for, and the CUDA driver has those from 0 to ",
                     count - 1, " (nvidia-smi lists them; CUDA_VISIBLE_DEVICES hides some)"));
  driver.require(driver.deviceGet(&device, static_cast<int>(number)), "choosing the GPU");
  return device;
}

std::string nameOfCommands(const Program &program, size_t graph) {
  return concat("the ", program.graphs[graph].commands.size(), " commands of graph '",
                program.graphs[graph].name(), "'");
}

/// What a library is asked for where one of several kernels is chosen, and for how long those of a program are timed.
constexpr int kMostAlternatives = 8;
constexpr int kMostTuningSeconds = 10;
/// Of that, for the first runs, which bring the code of all kernels to the device.
constexpr int kMostFirstRunSeconds = 5;

} // namespace

CudaDevice::CudaDevice(const DeviceOptions &options) : Device(options), driver(openDriver()) {
  device = chooseGpu(driver, options.gpu ? *options.gpu : options.ranks ? gpuOfRank(driver) : 0);
  driver.require(driver.primaryCtxRetain(&context, device), "opening the GPU");
  try {
    enter();
    driver.require(driver.deviceGetAttribute(&multiprocessors, kMultiprocessorCount, device),
                   "asking the GPU for its multiprocessors");
    int version = 0;
    driver.require(driver.driverGetVersion(&version), "asking the driver for its version");
    memory.device = nameOfDevice(driver, device) + ", driver " + versionText(version);
    for (Stream *made : {&stream, &copies})
      driver.require(driver.streamCreate(made, kStreamNonBlocking), "making a stream");
    driver.require(driver.eventCreate(&arrived, kEventDisableTiming), "making an event");
    memory.contexts = inUse();
    reserveArena();
    readbacks = makeBlock(mostReadbackBytes);
    for (Block *block : {&uploads[0], &uploads[1], &downloads})
      if (options.stagingBytes > 0)
        *block = makeBlock(options.stagingBytes);
  } catch (...) {
    release();
    throw;
  }
}

CudaDevice::~CudaDevice() {
  driver.ctxSetCurrent(context);
  release();
}

/// Calls of the driver are for the context of the thread that makes them.
void CudaDevice::enter() const {
  driver.require(driver.ctxSetCurrent(context), "using the GPU in this thread");
}

/// What is certain not to fit is said before anything is loaded.
void CudaDevice::reserveArena() {
  requireArenaFits();
  memoryOfArena.emplace(driver, device, options.arenaBytes, options.ranks != nullptr);
  if (!memoryOfArena->isReserved())
    takeArena();
  placeArena();
}

void CudaDevice::placeArena() {
  arena = memoryOfArena->address();
  if (arena % kArenaAlignment != 0)
    throw Error::internal(
        concat("the driver gave an arena that is not aligned to ", kArenaAlignment, " bytes"));
}

Bytes CudaDevice::requireArenaFits() const {
  size_t freeBytes = 0, totalBytes = 0;
  driver.require(driver.memGetInfo(&freeBytes, &totalBytes), "asking the GPU for its memory");
  const auto free = static_cast<Bytes>(freeBytes), total = static_cast<Bytes>(totalBytes);
  if (free >= options.arenaBytes)
    return free;
  const Bytes loaded = memory.code + memory.graphs;
  throw Error::badInput(
      "the arena takes " + formatBytesExact(options.arenaBytes) + ", and " +
      nameOfDevice(driver, device) + " has " + formatBytesExact(free) + " free of " +
      formatBytesExact(total) +
      (loaded > 0 ? " beside code, libraries and graphs of " + formatBytesExact(loaded) : "") +
      "; end other processes on it, or compile with --memory-budget");
}

void CudaDevice::takeArena() {
  if (memoryOfArena->isTaken())
    return;
  if (!memoryOfArena->take()) {
    const Bytes free = requireArenaFits();
    throw Error::badInput("the arena takes " + formatBytesExact(options.arenaBytes) + ", and " +
                          nameOfDevice(driver, device) + " has no such piece of the " +
                          formatBytesExact(free) +
                          " that are free; end other processes on it, or compile with "
                          "--memory-budget");
  }
}

/// For transfers: what they are to and from is there.
void CudaDevice::enterWithArena() {
  enter();
  takeArena();
}

Bytes CudaDevice::inUse() const {
  size_t free = 0, total = 0;
  driver.require(driver.memGetInfo(&free, &total), "asking the GPU for its memory");
  return static_cast<Bytes>(total - free);
}

std::optional<DriverMemory> CudaDevice::driverMemory() const {
  enter();
  size_t free = 0, total = 0;
  driver.require(driver.memGetInfo(&free, &total), "asking the GPU for its memory");
  DriverMemory now = memory;
  now.inUse = static_cast<Bytes>(total - free), now.total = static_cast<Bytes>(total);
  return now;
}

std::vector<std::string> CudaDevice::notes() const {
  std::vector<std::string> all = slowCopies;
  if (collectives && !collectives->note().empty())
    all.push_back(collectives->note());
  if (!memoryOfArena->obstacle().empty())
    all.push_back("the arena was taken before code, libraries and graphs, not after them: " +
                  memoryOfArena->obstacle());
  for (const SplitProducts &split : splitProducts)
    all.push_back(concat("cuBLASLt has nothing for ", split.count, " of the products", split.words,
                         " (first ", split.first,
                         "): product and kernel run one after the other instead"));
  if (goneAlgorithms > 0)
    all.push_back(concat(goneAlgorithms,
                         " of the algorithms that the checkpoint names are not among "
                         "cuBLASLt's first ",
                         kMostAlternatives, " here: ",
                         options.algorithms.tuning == Algorithms::Tuning::Load
                             ? "they were timed anew"
                             : "its first run instead; --autotune=load times them anew"));
  if (otherQuestions > 0)
    all.push_back(concat(otherQuestions,
                         " kinds of products are not those of the run that the checkpoint is of "
                         "(another budget, batch or precision): cuBLASLt's first algorithm runs; "
                         "--autotune=load times them"));
  if (untimed > 0)
    all.push_back(concat("timing algorithms ended after ", kMostTuningSeconds, " s: ", untimed,
                         " calls run the library's first"));
  for (const BoundGraph &graph : graphs)
    for (const BoundCommand &command : graph.commands)
      command.eachCall([&](const LibraryCall &call) {
        if (std::string note = call.note(); !note.empty())
          all.push_back(std::move(note));
      });
  return all;
}

CudaDevice::Block CudaDevice::makeBlock(Bytes size) {
  Block block;
  void *bytes = nullptr;
  driver.require(driver.memHostAlloc(&bytes, static_cast<size_t>(size), 0),
                 "taking pinned memory of " + formatBytesExact(size));
  block.bytes = static_cast<char *>(bytes);
  driver.require(driver.eventCreate(&block.done, kEventDisableTiming), "making an event");
  return block;
}

/// One that runs is freed when it has ended.
void CudaDevice::destroyGraphs() {
  for (BoundGraph &graph : graphs)
    if (graph.executable)
      driver.graphExecDestroy(std::exchange(graph.executable, nullptr));
}

/// Gives everything back; results do not matter any more.
void CudaDevice::release() {
  if (collectives && std::uncaught_exceptions() > 0)
    collectives->abort();
  for (Stream made : {stream, copies})
    if (made)
      driver.streamSynchronize(made);
  for (Event event : {arrived, timing[0], timing[1]})
    if (event)
      driver.eventDestroy(event);
  destroyGraphs();
  for (BoundGraph &graph : graphs) {
    if (graph.roomsAreFree)
      driver.eventDestroy(graph.roomsAreFree);
    for (Event mark : graph.marks)
      driver.eventDestroy(mark);
  }
  for (Block block : {uploads[0], uploads[1], downloads, readbacks}) {
    if (block.done)
      driver.eventDestroy(block.done);
    if (block.bytes)
      driver.memFreeHost(block.bytes);
  }
  graphs.clear(); // with what libraries hold in the context
  collectives.reset();
  slow.reset();
  if (module)
    driver.moduleUnload(module);
  memoryOfArena.reset();
  for (Stream made : {stream, copies})
    if (made)
      driver.streamDestroy(made);
  driver.primaryCtxRelease(device);
}

//===-- Commands ------------------------------------------------------------------------------===//

void CudaDevice::bind(const Program &program, const ProgramImage &image, Poison poison) {
  enter();
  if (image.deviceCode.empty())
    throw Error::badInput("this executable has no code for GPUs; compile the model with "
                          "--target=cuda:CHIP");
  const std::string deviceName = nameOfDevice(driver, device);
  chip = chipAtHand(program, deviceName, architectureOf(driver, device));
  module = loadKernels(driver, device, deviceName, image.deviceCode);
  if (options.ranks)
    collectives.emplace(driver, *options.ranks, [this] { destroyGraphs(); });
  rehearse();
  if (program.slowBytes > 0)
    slow.emplace(driver, program, options.slow, arena);
  for (const GraphProgram &graph : program.graphs) {
    BoundGraph &bound = graphs.emplace_back();
    bound.commands.reserve(graph.commands.size());
    for (const Command &command : graph.commands) {
      bound.commands.push_back(isOfCopy(command) ? bindCopy(command, graphs.size() - 1)
                                                 : bindCommand(command, program));
      if (poison == Poison::Dying)
        bound.commands.back().dying = command.dying;
    }
    bindRooms(graph, bound);
  }
  if (alternativesAsked() > 1) {
    for (Event &event : timing)
      driver.require(driver.eventCreate(&event, 0), "making an event");
    tuned = Tuned(options.algorithms.chosen);
  }
  // The parameters have their final places now.
  for (BoundGraph &graph : graphs)
    for (BoundCommand &command : graph.commands)
      command.keepPlaces();
  warmUp();
  Bytes before = inUse();
  memory.code = before - memory.contexts -
                (memoryOfArena->isTaken() ? options.arenaBytes : memoryOfArena->rehearsalBytes());
  if (slow ||
      collectives) { // what graphs copy, or NCCL has registered, is memory, not addresses alone
    takeArena();
    before = inUse();
  }
  if (collectives)
    collectives->registerArena(arena, options.arenaBytes);
  for (size_t i = 0; i < graphs.size(); ++i)
    if (!graphs[i].commands.empty())
      capture(graphs[i], nameOfCommands(program, i));
  waitForStream("bringing the graphs to the GPU");
  memory.graphs = inUse() - before;
  takeArena();
  if (alternativesAsked() > 1)
    chooseAlgorithms(program);
  if (slow)
    slowCopies = slow->slowerThanPlanned(program);
  outside.fixed = 3 * options.stagingBytes + mostReadbackBytes + (slow ? slow->bytes() : 0);
}

/// So that commands may run before the arena is taken; where they may not, it is taken now.
void CudaDevice::rehearse() {
  if (memoryOfArena->isTaken())
    return;
  memory.code = inUse() - memory.contexts;
  if (memoryOfArena->rehearse())
    return;
  takeArena();
  placeArena();
}

int CudaDevice::alternativesAsked() const {
  const Algorithms &asked = options.algorithms;
  const bool isTuned = asked.tuning == Algorithms::Tuning::Load ||
                       (asked.tuning == Algorithms::Tuning::None && !asked.chosen.empty());
  return isTuned ? kMostAlternatives : 1;
}

/// Of one of `runs` of the alternative at hand, in the arena as it is.
double CudaDevice::secondsOf(LibraryCall &call, int runs) {
  driver.require(driver.eventRecord(timing[0], stream), "recording an event");
  for (int i = 0; i < runs; ++i)
    call.submit(stream);
  driver.require(driver.eventRecord(timing[1], stream), "recording an event");
  driver.require(driver.eventSynchronize(timing[1]), "timing a library's call");
  float milliseconds = 0;
  driver.require(driver.eventElapsedTime(&milliseconds, timing[0], timing[1]),
                 "timing a library's call");
  tuningSeconds += 1e-3 * milliseconds;
  return 1e-3 * milliseconds / runs;
}

/// Nothing, and the first chosen, where the time for timing ends before all have run.
std::optional<size_t> CudaDevice::fastestOf(LibraryCall &call) {
  constexpr int kRuns = 3;
  size_t fastest = 0;
  double least = 0;
  for (size_t i = 0; i < call.alternatives(); ++i) {
    call.choose(i);
    if (tuningSeconds < kMostTuningSeconds)
      secondsOf(call, 1); // brings its operands into the caches, as far as they go
    if (tuningSeconds >= kMostTuningSeconds) {
      call.choose(0);
      return std::nullopt;
    }
    const double seconds = secondsOf(call, kRuns);
    if (i == 0 || seconds < least)
      fastest = i, least = seconds;
  }
  return fastest;
}

/// Those of an earlier run, and with --autotune=load the fastest for each question that it has no answer to. Graphs are
/// captured anew where another kernel than the library's first runs.
void CudaDevice::chooseAlgorithms(const Program &program) {
  const bool isTiming = options.algorithms.tuning == Algorithms::Tuning::Load;
  std::set<std::string> gone, others;
  for (size_t i = 0; i < graphs.size(); ++i) {
    bool changes = false;
    for (const BoundCommand &command : graphs[i].commands)
      command.eachCall([&](LibraryCall &call) {
        if (call.question().empty())
          return;
        if (tuned.knows(call) && !tuned.apply(call)) {
          gone.insert(call.question());
          tuned.forget(call);
        }
        if (isTiming && !tuned.knows(call) && !late.contains(call.question())) {
          if (const std::optional<size_t> fastest = fastestOf(call)) {
            tuned.take(call, *fastest);
            tuned.apply(call);
          }
        }
        untimed += isTiming && !tuned.knows(call);
        if (!isTiming && !tuned.knows(call) && !gone.contains(call.question()))
          others.insert(call.question());
        changes |= call.chosenAlternative() != 0;
      });
    if (!changes || graphs[i].commands.empty())
      continue;
    waitForStream("timing the libraries' calls");
    driver.graphExecDestroy(std::exchange(graphs[i].executable, nullptr));
    capture(graphs[i], nameOfCommands(program, i));
  }
  goneAlgorithms = gone.size(), otherQuestions = others.size();
  waitForStream("bringing the graphs to the GPU");
}

void CudaDevice::bindRooms(const GraphProgram &graph, BoundGraph &bound) {
  bound.roomsFrom = graph.nextFrom;
  if (!bound.roomsFrom)
    return;
  for (const GraphInput &input : graph.inputs)
    if (input.nextOffset)
      bound.rooms.push_back({*input.nextOffset, storedBytes(input.place.layout, input.place.shape,
                                                            input.place.dtype)});
  arrivals.reserve(std::max(arrivals.capacity(), bound.rooms.size()));
  driver.require(driver.eventCreate(&bound.roomsAreFree, kEventDisableTiming), "making an event");
}

/// Libraries bring code to the device at the first run of a call, which is not for a capture, and belongs
/// to what is counted as code. What the calls compute from the undefined arena is overwritten later.
void CudaDevice::warmUp() {
  forEachCall([&](LibraryCall &call) { call.submit(stream); });
  waitForStream("the first run of the libraries' calls");
  if (alternativesAsked() > 1)
    warmUpAlternatives();
  waitForStream("the first run of other kernels");
}

void CudaDevice::forEachCall(const std::function<void(LibraryCall &)> &visit) const {
  for (const BoundGraph &graph : graphs)
    for (const BoundCommand &command : graph.commands)
      command.eachCall(visit);
}

/// Calls of one question have the same kernels: those of its first call run once, or, where an earlier run has chosen one,
/// that one.
void CudaDevice::warmUpAlternatives() {
  std::set<std::string> seen;
  forEachCall([&](LibraryCall &call) {
    if (!call.question().empty() && seen.insert(call.question()).second)
      warmUpAlternatives(call);
  });
}

void CudaDevice::warmUpAlternatives(LibraryCall &call) {
  const bool isKnown = tuned.knows(call) && tuned.apply(call);
  const size_t known = call.chosenAlternative();
  const bool isTiming = options.algorithms.tuning == Algorithms::Tuning::Load;
  for (size_t i = call.alternatives(); i-- > 1;) {
    if (isKnown ? i != known : !isTiming)
      continue;
    if (!isKnown && tuningSeconds >= kMostFirstRunSeconds) {
      late.insert(call.question());
      break;
    }
    call.choose(i);
    try {
      if (isKnown)
        call.submit(stream);
      else
        secondsOf(call, 1);
    } catch (const DeviceLost &) {
      throw;
    } catch (const Error &) {
      call.drop(i);
    }
  }
  call.choose(0);
}

void CudaDevice::BoundCommand::keepPlaces() {
  for (uint64_t &parameter : parameters)
    addresses.push_back(&parameter);
  for (BoundCommand &part : parts)
    part.keepPlaces();
}

void CudaDevice::BoundCommand::eachCall(const std::function<void(LibraryCall &)> &visit) const {
  if (call)
    visit(*call);
  for (const BoundCommand &part : parts)
    part.eachCall(visit);
}

CudaDevice::BoundCommand CudaDevice::bindCopy(const Command &command, size_t graph) {
  BoundCommand bound;
  bound.name = command.name;
  bound.copy = {graph, static_cast<size_t>(command.ints.at("copy").front()),
                command.op != CommandOp::AwaitCopy};
  return bound;
}

static bool isProduct(const Command &command) {
  return command.op == CommandOp::CudaMatmul || command.op == CommandOp::CudaMatmulAdd ||
         command.op == CommandOp::CudaMatmulEpilogue;
}

CudaDevice::BoundCommand CudaDevice::bindCommand(const Command &command, const Program &program) {
  if (command.op == CommandOp::Kernel)
    return bindKernel(command, program);
  BoundCommand bound;
  bound.name = command.name;
  if (command.op == CommandOp::Sequence)
    for (const Command &part : command.parts)
      bound.parts.push_back(bindCommand(part, program));
  else if (isProduct(command) && !command.parts.empty())
    bindEpilogue(command, program, bound);
  else if (isProduct(command))
    bound.call = bindProduct(command, arena, alternativesAsked());
  else if (isConvolution(command))
    bound.call = bindConvolution(command, chip, arena);
  else if (isOfRanks(command.op))
    bound.call = bindOfRanks(collectives ? &*collectives : nullptr, command, arena);
  else
    throw Error::badInput("command " + command.title() +
                          " is a library call that this runtime does not have");
  return bound;
}

/// In one call, or in the parts that the program has of it, where the library has no such call.
void CudaDevice::bindEpilogue(const Command &command, const Program &program, BoundCommand &bound) {
  bound.call = bindProductIfAny(command, arena, alternativesAsked());
  if (bound.call)
    return;
  for (const Command &part : command.parts)
    bound.parts.push_back(bindCommand(part, program));
  const std::string words = wordsOf(epilogueOf(command));
  const auto known = std::ranges::find(splitProducts, words, &SplitProducts::words);
  if (known == splitProducts.end())
    splitProducts.push_back({words, command.title(), 1});
  else
    ++known->count;
}

CudaDevice::BoundCommand CudaDevice::bindKernel(const Command &command, const Program &program) {
  if (command.kernel < 0 || static_cast<size_t>(command.kernel) >= program.kernels.size())
    throw Error::badInput(concat("command of node '", command.name, "' runs kernel ",
                                 command.kernel, ", the executable has ", program.kernels.size()));
  BoundCommand bound;
  bound.name = command.name;
  const std::string &symbol = program.kernels[static_cast<size_t>(command.kernel)];
  driver.require(driver.moduleGetFunction(&bound.function, module, symbol.c_str()),
                 "finding kernel '" + symbol + "' of node '" + command.name + "'");
  int threads = 0;
  driver.require(driver.funcGetAttribute(&threads, kMaxThreadsPerBlock, bound.function),
                 "asking kernel '" + symbol + "' for its block");
  bound.threads = static_cast<unsigned>(threads);
  if (auto shared = command.ints.find("shared_bytes"); shared != command.ints.end())
    bound.sharedBytes = allowShared(driver, device, bound.function, shared->second.at(0),
                                    "kernel '" + symbol + "' of node '" + command.name + "'");
  bound.blocks = static_cast<unsigned>(
      std::clamp<int64_t>(command.tasks, 1, kBlocksPerMultiprocessor * multiprocessors));
  bound.parameters = {0, static_cast<uint64_t>(command.tasks)};
  for (const Operand &operand : command.operands)
    bound.parameters.push_back(arena + static_cast<uint64_t>(operand.offset));
  return bound;
}

void CudaDevice::submit(const BoundCommand &command, bool isTimed) {
  for (const BoundCommand &part : command.parts)
    submit(part);
  if (command.copy && command.copy->isStart)
    slow->start(command.copy->graph, command.copy->number, stream, isTimed);
  else if (command.copy)
    slow->await(command.copy->graph, command.copy->number, stream, isTimed);
  else if (command.call)
    command.call->submit(stream);
  else if (command.function)
    driver.require(driver.launchKernel(command.function, command.blocks, 1, 1, command.threads, 1,
                                       1, command.sharedBytes, stream,
                                       const_cast<void **>(command.addresses.data()), nullptr),
                   "launching the kernel of node '" + command.name + "'");
  for (const Operand &dead : command.dying)
    fillInOrder(dead.offset, storedBytes(dead.layout, dead.shape, dead.dtype), poisonByte);
}

void CudaDevice::capture(BoundGraph &graph, const std::string &what) {
  driver.require(driver.streamBeginCapture(stream, kCaptureThreadLocal), "capturing " + what);
  for (size_t i = 0; i < graph.commands.size(); ++i) {
    if (graph.roomsFrom == i)
      driver.require(driver.eventRecordWithFlags(graph.roomsAreFree, stream, kEventRecordExternal),
                     "recording an event in " + what);
    submit(graph.commands[i]);
  }
  Graph captured = nullptr;
  driver.require(driver.streamEndCapture(stream, &captured), "capturing " + what);
  const Result result = driver.graphInstantiateWithFlags(&graph.executable, captured, 0);
  driver.graphDestroy(captured);
  driver.require(result, "making a CUDA graph of " + what);
  driver.require(driver.graphUpload(graph.executable, stream), "bringing " + what + " to the GPU");
}

void CudaDevice::run(size_t graph, std::span<CommandTime> times) {
  enter();
  leaveBlock();
  BoundGraph &bound = graphs.at(graph);
  if (bound.commands.empty())
    return;
  if (!times.empty())
    return runTimed(graph, times);
  if (collectives)
    collectives->requireConnected();
  driver.require(driver.graphLaunch(bound.executable, stream), "launching a step");
  if (slow)
    slow->addTraffic(graph);
  if (bound.roomsAreFree)
    launched = &bound;
}

void CudaDevice::runCommand(size_t graph, size_t command) {
  enter();
  leaveBlock();
  submit(graphs.at(graph).commands.at(command));
  waitForStream("running it");
}

void CudaDevice::runTimed(size_t number, std::span<CommandTime> times) {
  BoundGraph &graph = graphs.at(number);
  for (size_t i = graph.marks.size(); i <= graph.commands.size(); ++i)
    driver.require(driver.eventCreate(&graph.marks.emplace_back(), 0), "making an event");
  driver.require(driver.eventRecord(graph.marks[0], stream), "recording an event");
  for (size_t i = 0; i < graph.commands.size(); ++i) {
    submit(graph.commands[i], /*isTimed=*/true);
    driver.require(driver.eventRecord(graph.marks[i + 1], stream), "recording an event");
  }
  waitForStream("the commands of a step");
  for (size_t i = 0; i < graph.commands.size(); ++i) {
    float milliseconds = 0;
    driver.require(driver.eventElapsedTime(&milliseconds, graph.marks[i], graph.marks[i + 1]),
                   "timing the kernel of node '" + graph.commands[i].name + "'");
    times[i] = {1e-3 * milliseconds, 0};
  }
  if (slow)
    slow->addTraffic(number);
}

double CudaDevice::copySeconds(size_t graph, size_t copy) const {
  enter();
  return slow ? slow->seconds(graph, copy) : 0;
}

std::optional<SlowTraffic> CudaDevice::slowTraffic() const {
  return slow ? std::optional(slow->traffic()) : std::nullopt;
}

} // namespace stow::cuda
