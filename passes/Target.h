// What a device's library answers about a call. Passes ask it; codegen/<device> implements it.
#pragma once

#include "ir/Stow.h"

#include <string>

namespace stow {

class Target {
public:
  virtual ~Target() = default;

  struct Requirements {
    Bytes workspaceBytes = 0;          ///< scratch of one call at the planned thread count
    Bytes heapBytes = 0;               ///< what the library takes from the heap beside it
    llvm::SmallVector<Layout> layouts; ///< operands, then results: what the implementation wants
    std::string implementation;        ///< the library's name for it
    bool isReference = false;          ///< slow code that only exists so that the call works
  };

  /// Asks for the best implementation of `op`. Positions (operands, then results) set in
  /// `freeLayouts` may be laid out as the library likes; the others are taken from the types. Emits
  /// an error at the op and fails when no implementation takes it.
  virtual mlir::FailureOr<Requirements> query(LibraryOpInterface op,
                                              llvm::ArrayRef<bool> freeLayouts) const = 0;

  /// True where a generated kernel serves `op` better than the library: as fast, and without
  /// padded operands. Such ops are marked `stow.generated`.
  virtual bool prefersKernel(mlir::Operation *op) const = 0;
};

} // namespace stow
