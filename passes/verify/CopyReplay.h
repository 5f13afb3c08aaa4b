// The copies of one placed graph between the arena and slow memory, replayed: what is under way, and what slow memory holds.
#pragma once

#include "ir/StowOffloadOps.h"
#include "passes/verify/ArenaContent.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <utility>

namespace stow {

/// A copy touches its buffer at any time between its start and its await, so nothing else may touch it there: a copy out reads
/// its bytes, a copy in writes them. Every method emits an error at the op at fault and fails.
class CopyReplay {
public:
  explicit CopyReplay(int64_t slowBytes) : slowBytes(slowBytes) {}

  /// Refuses an op that reads `range` while it is being fetched.
  mlir::LogicalResult checkRead(mlir::Operation *reader, const Comb &range) const;

  /// Refuses one that writes `range` while it is being copied, in any direction.
  mlir::LogicalResult checkWrite(mlir::Operation *writer, const Comb &range) const;

  /// A copy of the bytes at `range` starts, to places in slow memory that no copy under way touches, or from where its bytes
  /// still are. So they are until the copy is awaited.
  mlir::LogicalResult start(CopyOutOp op, const Comb &range);
  mlir::LogicalResult start(CopyInOp op, const Comb &range);

  /// The graph begins: where `argument` is state that lies in slow memory, it does so in whole blocks, at the same place in all
  /// graphs, of which `known` has those entered before.
  mlir::LogicalResult enter(mlir::func::FuncOp graph, mlir::BlockArgument argument,
                            llvm::StringMap<Comb> &known);

  /// The graph ends: such state is there as it was, or, where a token is returned for it, replaced by its copy out. No other
  /// state is returned as a token.
  mlir::LogicalResult leave(mlir::func::FuncOp graph, mlir::BlockArgument argument,
                            mlir::Value returned) const;

  /// `op` awaits what `copy` started.
  mlir::LogicalResult await(mlir::Operation *op, mlir::Operation *copy);

  /// The graph ends, and with it every copy.
  mlir::LogicalResult leave() const;

private:
  struct Copy {
    Comb range, slow;
  };
  struct Written {
    Comb slow;
    Event event;
  };
  const int64_t slowBytes;
  llvm::SmallVector<std::pair<mlir::Operation *, Copy>> inFlight;
  llvm::DenseMap<mlir::Operation *, Written> written; ///< by copy out
  llvm::DenseMap<mlir::Value, Written> held;          ///< by token of state
  ArenaContent content;                               ///< of slow memory
};

} // namespace stow
