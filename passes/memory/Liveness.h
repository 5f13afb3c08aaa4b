// Storages of an ordered graph and when they are live.
//
// Time is the number of the command: ops that launch nothing (views, the terminator) have none. A
// storage holds a value, its views and whatever overwrites it in place, one after the other:
//
//   command   0: conv    1: bn (in place)  2: reshape  3: matmul
//   storage A [ %0 ----> %1 ------------->  (view %2)-> ]            begin 0, end 4
#pragma once

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace stow {

/// Number of a storage within its graph.
using StorageId = unsigned;

struct Storage {
  llvm::SmallVector<mlir::Value, 2> values; ///< in order of definition; the first one names it
  Bytes size = 0;
  int64_t begin = 0; ///< command that defines it; 0 for arguments
  int64_t end = 0;   ///< one past the last command that reads or writes it
  bool isState = false;
};

class Liveness {
public:
  /// Reads views, in-place marks and state updates of `graph`. O(values + uses).
  explicit Liveness(mlir::func::FuncOp graph);

  const std::vector<Storage> &storages() const { return all; }
  StorageId storageOf(mlir::Value value) const { return ids.lookup(value); }
  /// Length of time: the number of commands, 1 where there is none.
  int64_t commandCount() const { return commands; }

  /// Number of the command, or none for ops that launch nothing.
  std::optional<int64_t> commandOf(mlir::Operation *op) const;

  /// Largest sum of live bytes, workspaces included, state excluded.
  Bytes transientPeak() const;

  /// Bytes of all state.
  Bytes stateBytes() const;

private:
  std::vector<Storage> all;
  llvm::DenseMap<mlir::Value, StorageId> ids;
  llvm::DenseMap<mlir::Operation *, int64_t> numbers;
  std::vector<Bytes> workspaces; ///< by command
  int64_t commands = 0;
};

/// True for ops that take no time and no memory: views, constants, the terminator.
bool launchesNothing(mlir::Operation *op);

/// The value whose bytes `value` is: itself, or what a chain of views looks at.
mlir::Value viewedValue(mlir::Value value);

/// The operand whose storage `result` shares: a view, an in-place mark or a state update.
std::optional<unsigned> sharedOperand(mlir::OpResult result);

/// Kind attribute of an argument, e.g. "parameter".
llvm::StringRef kindOfArgument(mlir::func::FuncOp graph, unsigned argument);

/// True for the kinds that persist between steps: parameter, statistic, optimizer.
bool isStateKind(llvm::StringRef kind);

/// Marks results that overwrite a dying operand (stow.in_place), in program order. Greedy: an
/// operand that dies here and that the op allows. Returns the bytes of the results placed so.
Bytes shareInPlace(mlir::func::FuncOp graph);

} // namespace stow
