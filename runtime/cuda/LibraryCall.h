// A call of one of CUDA's libraries, bound to its places in the arena.
#pragma once

#include "runtime/cuda/Driver.h"

#include <cstddef>
#include <memory>
#include <string>

namespace stow::cuda {

class LibraryCall {
public:
  virtual ~LibraryCall() = default;
  /// Puts it on `stream`, whether that is captured or not. Throws Error(BadInput) naming the node.
  virtual void submit(Stream stream) = 0;
  /// Kernels that the library has for it, of which the first runs unless another is chosen.
  virtual size_t alternatives() const { return 1; }
  virtual void choose(size_t /*alternative*/) {}
  virtual size_t chosenAlternative() const { return 0; }
  /// Forgets one that is not the first: it does not run.
  virtual void drop(size_t /*alternative*/) {}
  /// What one is called, by the library's version; calls of one question() have the same ones. Without blanks.
  virtual std::string alternative(size_t /*number*/) const { return ""; }
  virtual std::string question() const { return ""; }
  /// In what it is not as planned, as a sentence; empty where it is.
  virtual std::string note() const { return ""; }
};

} // namespace stow::cuda
