// A call of one of CUDA's libraries, bound to its places in the arena.
#pragma once

#include "runtime/cuda/Driver.h"

#include <memory>
#include <string>

namespace stow::cuda {

class LibraryCall {
public:
  virtual ~LibraryCall() = default;
  /// Puts it on `stream`, whether that is captured or not. Throws Error(BadInput) naming the node.
  virtual void submit(Stream stream) = 0;
  /// In what it is not as planned, as a sentence; empty where it is.
  virtual std::string note() const { return ""; }
};

} // namespace stow::cuda
