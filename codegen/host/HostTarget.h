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

private:
  int64_t threads;
};

} // namespace stow::host
