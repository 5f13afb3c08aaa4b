// Where kernels under test run: on the host (HostRunner.cpp) or on the simulated GPU
// (tests/gpu/DeviceRunner.cpp), whichever is linked.
#pragma once

#include "codegen/kernels/Kernels.h"

#include <memory>
#include <vector>

namespace stow {

class KernelRunner {
public:
  virtual ~KernelRunner() = default;
  /// Emits the kernel of `op`. Throws std::runtime_error when that fails.
  virtual KernelInfo add(mlir::Operation *op) = 0;
  /// Makes what was added ready to run.
  virtual void compile() = 0;
  /// Runs the tasks [begin, end) of the op added as number `op`; its operands, then its results.
  virtual void run(size_t op, int64_t begin, int64_t end, const std::vector<char *> &arguments) = 0;
};

/// `cpu` is the processor of the host; another than "native" stands for the older of two GPUs.
std::unique_ptr<KernelRunner> makeKernelRunner(mlir::MLIRContext *context, const std::string &cpu);

} // namespace stow
