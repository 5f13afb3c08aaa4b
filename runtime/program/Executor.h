// Runs a program inside its arena.
//
// The executor owns the one allocation of a run. Binding creates every library primitive; after the
// constructor returns, run() allocates no memory for tensors or workspaces.
#pragma once

#include "runtime/format/Program.h"
#include "runtime/program/Profile.h"

#include <memory>
#include <span>

namespace stow {

/// The parts of an executable's image that its program refers to by index or offset.
struct ProgramImage {
  std::span<const StowKernelFn> kernels;
  std::span<const char> constants;
};

struct ExecutorOptions {
  int64_t threads = 0; ///< 0 = the number the program was planned for
  bool poison = false; ///< fill buffers with NaN (0xFF bytes) when they die
};

class Executor {
public:
  /// Allocates the arena and binds every command. Throws Error(BadInput) when the machine lacks the
  /// memory or a library needs more workspace than planned.
  Executor(Program program, ProgramImage image, ExecutorOptions options);
  ~Executor();

  const Program &program() const;
  int64_t threads() const; ///< that commands run on
  std::span<char> arena();

  /// Gives every state tensor its first value, in stored layout (padding zero).
  void initializeState(uint64_t seed);

  /// Runs one graph once: 0 = train, 1 = eval. Inputs must lie in the arena. Notes the time of each
  /// command in `profile`, which must be one of this graph, if given.
  void run(size_t graph, Profile *profile = nullptr);

  /// Copies between row-major host memory and a stored tensor, converting the layout. `bytes` is
  /// elementCount * sizeOf(dtype). Neither allocates.
  void writeTensor(const Operand &place, const void *rowMajor);
  void readTensor(const Operand &place, void *rowMajor) const;

  /// Writes samples [row] of a batch: the slice at index `row` of dimension 0.
  void writeTensorRow(const Operand &place, int64_t row, const void *rowMajor);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace stow
