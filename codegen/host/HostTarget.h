// The host library's answers to the passes' questions.
#pragma once

#include "passes/Target.h"

namespace stow::host {

class HostTarget : public Target {
public:
  /// Workspaces are those of `threads` threads.
  explicit HostTarget(int64_t threads) : threads(threads) {}

  mlir::FailureOr<Requirements> query(LibraryOpInterface op,
                                      llvm::ArrayRef<bool> freeLayouts) const override;

  /// Depthwise convolutions: the library pads their weights up to 256 times for gradients of
  /// windows beyond 3x3, and channels to its vectors everywhere.
  bool prefersKernel(mlir::Operation *op) const override;

private:
  int64_t threads;
};

} // namespace stow::host
