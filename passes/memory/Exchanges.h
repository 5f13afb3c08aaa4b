// What the ranks of a step exchange.
#pragma once

#include "runtime/base/Bytes.h"

#include "mlir/IR/Operation.h"

namespace stow {

/// What a collective exchanges between `ranks` ranks in one run: bytes that a rank sends, as many as come to it, and in how many
/// exchanges, one after the other.
struct Exchanged {
  Bytes sentBytes = 0;
  int64_t exchanges = 0;
};
/// Of sums that are exchanged together the last stands for all, and the others for nothing.
Exchanged exchangedBy(mlir::Operation *collective);

/// The sums that `last`, a collective, is exchanged together with, itself included: those in front of it with stow.with_next. O(ops).
llvm::SmallVector<mlir::Operation *> exchangedTogether(mlir::Operation *last);

} // namespace stow
