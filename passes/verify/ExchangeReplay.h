// The collectives of one placed graph that run beside other ops, replayed: what is under way, and which bytes it touches.
#pragma once

#include "passes/verify/ArenaContent.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace stow {

/// A started collective touches its bytes at any time between its start and its await: nothing else may write what it reads, nor read or
/// write what it writes. Every method emits an error at the op at fault and fails.
class ExchangeReplay {
public:
  /// Refuses an op that reads `range` while a collective writes it.
  mlir::LogicalResult checkRead(mlir::Operation *reader, const Comb &range) const;

  /// Refuses one that writes `range` while a collective reads or writes it.
  mlir::LogicalResult checkWrite(mlir::Operation *writer, const Comb &range) const;

  /// A started collective begins; all of `read` and `written` are dense.
  mlir::LogicalResult start(mlir::Operation *op, llvm::ArrayRef<Comb> read,
                            llvm::ArrayRef<Comb> written);

  /// `op` waits for its end. They run one after the other, so none ends before those that began earlier; these may still be awaited
  /// later.
  mlir::LogicalResult await(mlir::Operation *op, mlir::Operation *collective);

  /// The graph ends, and with it every collective.
  mlir::LogicalResult leave() const;

private:
  struct Exchange {
    mlir::Operation *op;
    llvm::SmallVector<Comb> read, written;
  };
  llvm::SmallVector<Exchange> underWay;
};

} // namespace stow
