#include "runtime/host/HostDevice.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/format/Reduction.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/host/Instructions.h"
#include "runtime/host/Outside.h"
#include "runtime/host/Shards.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

namespace stow::host {

namespace {

/// Two clock readings, half a microsecond together.
struct Reading {
  std::chrono::steady_clock::time_point wall = std::chrono::steady_clock::now();
  double processor = processorSeconds();

  /// Of the whole process, all threads. Steadier than the wall clock beside other load.
  static double processorSeconds() {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  CommandTime since(const Reading &before) const {
    return {std::chrono::duration<double>(wall - before.wall).count(),
            processor - before.processor};
  }
};

} // namespace

HostDevice::HostDevice(const DeviceOptions &options) : Device(options), arena(options.arenaBytes) {
  if (options.algorithms.tuning != Algorithms::Tuning::None)
    throw Error::badInput(
        "--autotune chooses among the kernels of a GPU's libraries, and this program "
        "was compiled for the processor; leave it out");
  if (options.gpu)
    throw Error::badInput(concat("GPU ", *options.gpu,
                                 " is asked for, and this program was compiled for the processor; "
                                 "leave --gpu out, or compile the model with --target=cuda:CHIP"));
}

void HostDevice::bind(const Program &program, const ProgramImage &image, Poison poison) {
  useInstructionsOf(program.target);
  ThreadScope scope(options.threads);
  int64_t libraryCalls = 0;
  if (program.slowBytes > 0)
    slow.emplace(program, options.slow, arena.data());
  if (stow::startsExchanges(program)) {
    const bool isBeside = !options.ranks || options.ranks->mayBeCalledBeside();
    lane.emplace(options.slow.pace.time == CopyTime::Background && !isBeside
                     ? CopyTime::Early
                     : options.slow.pace.time,
                 laneScratchBytes(program.devices));
  }
  for (size_t i = 0; i < program.graphs.size(); ++i) {
    const GraphProgram &graph = program.graphs[i];
    std::vector<BoundCommand> &bound = graphs.emplace_back();
    bound.reserve(graph.commands.size());
    Started started;
    for (const Command &command : graph.commands) {
      if (slow && isOfCopy(command)) {
        bound.emplace_back(command, arena.data(), poison, slow->stepOf(command, i));
        continue;
      }
      if (isOfRanks(command.op)) {
        bound.emplace_back(command, arena.data(), poison, bindExchange(command, started));
        continue;
      }
      bound.emplace_back(command, image, arena.data(), options.threads, poison);
      outside.heap = std::max(outside.heap, bound.back().heapBytes());
      // The library keeps the tiles of one sequence as one call: they have one shape, but for the last.
      libraryCalls += command.op != CommandOp::Kernel;
    }
    if (started.together)
      throw Error::badInput("graph '" + graph.name() +
                            "' ends before the last of sums that are exchanged together");
    startsExchanges.push_back(started.onLane.empty() ? 0 : 1);
  }
  outside.fixed = kProcessBytes + kBytesPerCall * libraryCalls + (slow ? slow->outsideBytes() : 0) +
                  (program.devices > 1 ? kRanksProcessBytes : 0) + (lane ? kExchangeLaneBytes : 0);
}

namespace {

/// What a caller does before its sum starts, and perhaps the start.
class PreparedCall : public LibraryCall {
public:
  PreparedCall(std::unique_ptr<Exchange> sum, std::unique_ptr<LibraryCall> start)
      : sum(std::move(sum)), start(std::move(start)) {}
  void run() override {
    sum->prepare();
    if (start)
      start->run();
  }

private:
  std::unique_ptr<Exchange> sum;
  std::unique_ptr<LibraryCall> start;
};

} // namespace

/// Of sums that are exchanged together the last one's start is that of all; until then nobody awaits them.
std::unique_ptr<LibraryCall> HostDevice::bindStart(const Command &command,
                                                   std::unique_ptr<Exchange> exchange,
                                                   Started &started) {
  const bool withNext = command.ints.contains("with_next");
  if (!withNext && !started.together) {
    started.onLane.push_back(lane->add(std::move(exchange)));
    return startOf(*lane, started.onLane.back());
  }
  if (command.op != CommandOp::AllReduce)
    throw Error::badInput("command " + command.title() +
                          ": expected a sum, with which the sums before it are exchanged");
  if (!started.together)
    started.together = std::make_unique<SumsTogether>(*options.ranks, lane->scratch());
  started.together->add(command, arena.data());
  // The number that the lane gives all of them; a later one is not known yet.
  started.onLane.push_back(lane->nextNumber());
  if (withNext)
    return std::make_unique<PreparedCall>(std::move(exchange), nullptr);
  const size_t own = lane->add(std::exchange(started.together, nullptr));
  return std::make_unique<PreparedCall>(std::move(exchange), startOf(*lane, own));
}

/// A command of several ranks.
std::unique_ptr<LibraryCall> HostDevice::bindExchange(const Command &command, Started &started) {
  const auto number = command.ints.find("exchange");
  const bool isNumbered = number != command.ints.end() && number->second.size() == 1 && lane;
  if (command.op == CommandOp::AwaitRanks) {
    if (!isNumbered || number->second.front() < 0 ||
        number->second.front() >= std::ssize(started.onLane))
      throw Error::badInput(concat("command ", command.title(),
                                   ": expected the number of one of the ", started.onLane.size(),
                                   " collectives that are started before it"));
    return awaitOf(*lane, started.onLane[static_cast<size_t>(number->second.front())]);
  }
  char *scratch = isNumbered ? lane->scratch() : nullptr;
  std::unique_ptr<Exchange> exchange =
      command.op == CommandOp::AllReduce
          ? bindAllReduce(command, arena.data(), options.ranks, scratch)
          : bindShards(command, arena.data(), options.ranks, scratch);
  if (command.op == CommandOp::Shard || !lane)
    return exchange;
  if (!isNumbered && started.together)
    throw Error::badInput("command " + command.title() +
                          " stands between sums that are exchanged together");
  if (!isNumbered)
    return startAndAwait(*lane, lane->add(std::move(exchange)));
  if (number->second.front() != std::ssize(started.onLane))
    throw Error::badInput(concat("command ", command.title(), ": expected collective number ",
                                 started.onLane.size(), ", found ", number->second.front()));
  return bindStart(command, std::move(exchange), started);
}

std::optional<ExchangeWaits> HostDevice::exchangeWaits() const {
  if (!lane)
    return std::nullopt;
  return ExchangeWaits{lane->waitedSeconds(), std::max<int64_t>(runsOfLane - 1, 0)};
}

/// Runs commands. Whatever ends them in the middle leaves no copy on its way.
template <typename Action> void HostDevice::orCancelCopies(const Action &action) {
  requireArena();
  try {
    action();
  } catch (const slow::CopyFailed &error) {
    lost = error.what();
    slow->cancel();
    throw DeviceLost(lost);
  } catch (...) {
    if (slow)
      slow->cancel();
    throw;
  }
}

/// What a copy should have brought back is not there.
void HostDevice::requireArena() const {
  if (!lost.empty())
    throw DeviceLost(lost);
}

char *HostDevice::stage(Bytes offset, Bytes bytes) {
  requireArena();
  return isSlow(offset) ? slowMemory().stage(offset - slowBeginOf(arenaBytes()), bytes)
                        : arena.data() + offset;
}

void HostDevice::commit(Bytes offset, Bytes bytes) {
  if (isSlow(offset))
    slowMemory().commit(offset - slowBeginOf(arenaBytes()), bytes);
}

const char *HostDevice::fetch(Bytes offset, Bytes bytes) {
  requireArena();
  return isSlow(offset) ? slowMemory().fetch(offset - slowBeginOf(arenaBytes()), bytes)
                        : arena.data() + offset;
}

SlowMemory &HostDevice::slowMemory() {
  if (!slow)
    throw Error::internal("a transfer from or to slow memory, of which the bound program has none");
  return *slow;
}

std::optional<SlowTraffic> HostDevice::slowTraffic() const {
  return slow ? std::optional(slow->traffic()) : std::nullopt;
}

double HostDevice::copySeconds(size_t graph, size_t copy) const {
  return slow ? slow->seconds(graph, copy) : 0;
}

std::vector<std::string> HostDevice::notes() const {
  std::vector<std::string> notes = slow ? slow->notes() : std::vector<std::string>();
  if (lane && options.ranks && !options.ranks->mayBeCalledBeside())
    notes.emplace_back("MPI was begun by another library, without threads "
                       "(MPI_THREAD_SERIALIZED): what ranks exchange runs where it is started, and "
                       "not beside other commands; begin it with more, or let Stowage begin it");
  return notes;
}

void HostDevice::run(size_t graph, std::span<CommandTime> times) {
  ThreadScope scope(options.threads);
  const std::vector<BoundCommand> &commands = graphs.at(graph);
  if (lane && runsOfLane == 1)
    lane->forgetWaits();
  orCancelCopies([&] {
    runsOfLane += startsExchanges[graph];
    if (times.empty()) {
      for (const BoundCommand &command : commands)
        command.run();
      return;
    }
    Reading last;
    for (size_t i = 0; i < commands.size(); ++i) {
      commands[i].run();
      Reading now;
      times[i] = now.since(last);
      last = now;
    }
  });
}

void HostDevice::runCommand(size_t graph, size_t command) {
  ThreadScope scope(options.threads);
  orCancelCopies([&] { graphs.at(graph).at(command).run(); });
}

void HostDevice::set(Bytes offset, Bytes bytes, uint8_t value) {
  std::memset(arena.data() + offset, value, static_cast<size_t>(bytes));
}

} // namespace stow::host
