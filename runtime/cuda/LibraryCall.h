// A call of one of CUDA's libraries, bound to its places in the arena.
#pragma once

#include "runtime/cuda/Driver.h"

#include <memory>

namespace stow::cuda {

class LibraryCall {
public:
  virtual ~LibraryCall() = default;
  /// Puts it on `stream`, whether that is captured or not. Throws Error(BadInput) naming the node.
  virtual void submit(Stream stream) = 0;
};

} // namespace stow::cuda
