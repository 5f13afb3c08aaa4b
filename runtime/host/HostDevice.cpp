#include "runtime/host/HostDevice.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/Instructions.h"
#include "runtime/host/Outside.h"

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

HostDevice::HostDevice(const DeviceOptions &options) : Device(options), arena(options.arenaBytes) {}

void HostDevice::bind(const Program &program, const ProgramImage &image, Poison poison) {
  useInstructionsOf(program.target);
  ThreadScope scope(options.threads);
  int64_t libraryCalls = 0;
  for (const GraphProgram &graph : program.graphs) {
    std::vector<BoundCommand> &bound = graphs.emplace_back();
    bound.reserve(graph.commands.size());
    for (const Command &command : graph.commands) {
      bound.emplace_back(command, image, arena.data(), options.threads, poison);
      outside.heap = std::max(outside.heap, bound.back().heapBytes());
      // The library keeps the tiles of one sequence as one call: they have one shape, but for the last.
      libraryCalls += command.op != "kernel";
    }
  }
  outside.fixed = kProcessBytes + kBytesPerCall * libraryCalls;
}

void HostDevice::run(size_t graph, std::span<CommandTime> times) {
  ThreadScope scope(options.threads);
  const std::vector<BoundCommand> &commands = graphs.at(graph);
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
}

void HostDevice::runCommand(size_t graph, size_t command) {
  ThreadScope scope(options.threads);
  graphs.at(graph).at(command).run();
}

void HostDevice::set(Bytes offset, Bytes bytes, uint8_t value) {
  std::memset(arena.data() + offset, value, static_cast<size_t>(bytes));
}

} // namespace stow::host
