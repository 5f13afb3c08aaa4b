// The functions of a library that was opened with dlopen.
#pragma once

#include <dlfcn.h>
#include <string>

namespace stow::cuda {

/// Fills pointers by the names that the library exports, and keeps those that it lacks.
class Functions {
public:
  explicit Functions(void *library) : library(library) {}

  /// Null where the library has no function of that name.
  template <typename Pointer> void find(Pointer &pointer, const char *name) {
    pointer = reinterpret_cast<Pointer>(dlsym(library, name));
    if (!pointer)
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  }

  std::string missing; ///< with commas between; empty where all were found

private:
  void *library;
};

} // namespace stow::cuda
