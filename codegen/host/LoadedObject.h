// Kernels compiled and loaded into this process.
#pragma once

#include "codegen/host/ObjectFile.h"
#include "codegen/kernels/Kernels.h"
#include "runtime/format/Program.h"

#include <span>

namespace stow {

/// The kernels of a module, ready to run for as long as this lives.
class LoadedObject {
public:
  /// Lowers `kernels` in place. Throws Error when they cannot be compiled, linked or loaded.
  LoadedObject(KernelModule &kernels, const HostCpu &cpu);
  ~LoadedObject();
  LoadedObject(const LoadedObject &) = delete;
  LoadedObject &operator=(const LoadedObject &) = delete;

  /// By KernelInfo::index.
  std::span<const StowKernelFn> kernels() const { return {table, count}; }

private:
  void *handle = nullptr;
  const StowKernelFn *table = nullptr;
  size_t count = 0;
};

} // namespace stow
