// A PTX module in device memory, its kernels decoded.
#pragma once

#include "tests/gpu/execute/Memory.h"
#include "tests/gpu/execute/Program.h"

namespace stow::sim {

class LoadedModule {
public:
  /// Parses, places the module's variables in `memory` and decodes all kernels. Throws PtxError;
  /// std::bad_alloc where the variables do not fit.
  LoadedModule(const std::string &ptx, DeviceMemory &memory);
  ~LoadedModule();
  LoadedModule(const LoadedModule &) = delete;
  LoadedModule &operator=(const LoadedModule &) = delete;

  const Module &module() const { return *parsed; }
  /// Null: there is none of that name.
  const Kernel *kernel(const std::string &name) const;
  const std::map<std::string, Kernel> &kernels() const { return decoded; }
  /// Address and bytes of a .global or .const variable; zeros: there is none.
  std::pair<uint64_t, uint64_t> variable(const std::string &name) const;

private:
  void place(const Variable &variable);
  void relocate(const Variable &variable);

  DeviceMemory &memory;
  std::shared_ptr<const Module> parsed;
  std::map<std::string, std::pair<uint64_t, uint64_t>> variables;
  std::map<std::string, Kernel> decoded;
};

} // namespace stow::sim
