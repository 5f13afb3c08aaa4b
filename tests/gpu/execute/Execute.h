// Runs a kernel's grid on the processor.
#pragma once

#include "tests/gpu/execute/Memory.h"
#include "tests/gpu/execute/Program.h"

#include <array>

namespace stow::sim {

using Extents = std::array<uint32_t, 3>;

/// Which checks a launch runs under, apart from those that always hold (accesses inside allocations
/// and aligned, shared memory written before it is read, barriers that all threads reach).
struct Checks {
  /// With `planned`, reads must lie inside `reads` or `writes`, and writes inside `writes`.
  bool planned = false;
  std::vector<Range> reads, writes;
  /// Two threads that touch a byte, one of them writing, need a barrier between them. Slow.
  bool races = false;
  /// With `races`: of global memory one page of 256 bytes in so many is watched, which bounds what is kept of them.
  uint32_t racePages = 1;
  /// Written by something else meanwhile: nothing may touch these.
  std::vector<Range> busy;
  /// Read by something else meanwhile: nothing may write these.
  std::vector<Range> kept;
  /// Thread instructions that one block may take.
  uint64_t instructionLimit = uint64_t{1} << 36;
};

struct Launch {
  const Kernel *kernel = nullptr;
  Extents grid = {1, 1, 1}, block = {1, 1, 1};
  std::vector<uint64_t> blocks; ///< the only ones that run, by number; empty: all
  uint64_t dynamicSharedBytes = 0;
  std::vector<uint8_t> params; ///< Kernel::paramBytes
  Checks checks;
  unsigned threads = 1; ///< of the host; the result is the same for any number
  uint32_t multiprocessors = 1;
  /// Takes what device code prints, in the order of blocks.
  std::function<void(const std::string &)> print;
};

struct LaunchCounts {
  uint64_t threadInstructions = 0;
};

/// Runs all blocks. Throws the Fault of the first block, in order of numbers, that has one.
LaunchCounts execute(const Launch &launch, DeviceMemory &memory);

} // namespace stow::sim
