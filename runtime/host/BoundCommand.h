// A command of a program with addresses in place of offsets, ready to run.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/host/Library.h"
#include "runtime/host/SlowMemory.h"

#include <memory>
#include <vector>

namespace stow::host {

class BoundCommand {
public:
  /// `arena` is where offset 0 lies. Throws Error(BadInput) naming the command when it is a kernel
  /// that the image lacks, or a library call that bindLibraryCall() refuses.
  BoundCommand(const Command &command, const ProgramImage &image, char *arena, int64_t threads,
               Poison poison);

  /// One that starts a copy or waits for it.
  BoundCommand(const Command &command, char *arena, Poison poison, const CopyStep &step);

  /// One that a call of its own runs.
  BoundCommand(const Command &command, char *arena, Poison poison,
               std::unique_ptr<LibraryCall> call);

  /// Runs it, then poisons what dies with it. Allocates nothing for tensors.
  void run() const;

  /// Most that running it takes from the heap.
  Bytes heapBytes() const;

private:
  void bindDying(const Command &command, char *arena, Poison poison);
  void bindKernel(const Command &command, const ProgramImage &image, char *arena,
                  int64_t availableThreads);

  struct Range {
    char *begin;
    size_t bytes;
  };

  StowKernelFn kernel = nullptr; ///< or a library call
  int64_t tasks = 0;
  int64_t threads = 1; ///< of a kernel
  std::vector<char *> arguments;
  std::unique_ptr<LibraryCall> call;
  std::vector<BoundCommand> parts; ///< or these, one after the other
  CopyStep step;                   ///< or this, where it has lanes
  std::vector<Range> dying;        ///< filled when poisoning
};

} // namespace stow::host
