// Kernels compiled and loaded into this process.
#pragma once

#include "codegen/Backend.h"
#include "codegen/program/ObjectFile.h"

#include <memory>

namespace stow {

/// The kernels of a module, ready to run for as long as this lives. LLVM's linker for code in memory takes the
/// place of a compiler driver, a linker and their start, which take longer than most kernels.
class LoadedObject : public LoadedCode {
public:
  /// Lowers `kernels` in place. Throws Error when they cannot be compiled, linked or loaded.
  LoadedObject(KernelModule &kernels, const HostCpu &cpu);
  ~LoadedObject() override;
  LoadedObject(const LoadedObject &) = delete;
  LoadedObject &operator=(const LoadedObject &) = delete;

  std::span<const StowKernelFn> kernels() const override { return {table, count}; }

private:
  class Session;
  std::unique_ptr<Session> session;
  const StowKernelFn *table = nullptr;
  size_t count = 0;
};

} // namespace stow
