// Storages of an ordered graph and when they are live.
//
// Time is the number of the command: ops that launch nothing (views, the terminator) have none. A
// storage holds a value, its views and whatever overwrites it in place, one after the other:
//
//   command   0: conv    1: bn (in place)  2: reshape  3: matmul
//   storage A [ %0 ----> %1 ------------->  (view %2)-> ]            begin 0, end 4
//
// What is placed inside a concat's result has a place in the result's storage from its own
// production on, and a slice that is a view has one in its operand's:
//
//   command   0: map    1: map    (concat of %0, %1: %2)   2: conv %2   ...   7: map (slice of %2)
//   storage B [ %0 ---------------------------------------------------------> ]   bytes [0, 64)
//             [          %1 ------------------------------------------------> ]   bytes [64, 96)
#pragma once

#include "ir/Graphs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <limits>
#include <vector>

namespace stow {

class Target; // passes/Target.h

/// Number of a storage within its graph.
using StorageId = unsigned;

struct Storage {
  llvm::SmallVector<mlir::Value, 2> values; ///< in order of definition; the first creates it
  Bytes size = 0;
  int64_t begin = 0; ///< command that defines it; 0 for arguments
  int64_t end = 0;   ///< one past the last command that reads or writes it
  bool isState = false;
};

/// What a storage would take if no layout padded it: the bytes of a value that fills it.
Bytes logicalBytesOf(const Storage &storage);

class Liveness {
public:
  /// Reads views, in-place marks and state updates of `graph`. O(values + uses).
  explicit Liveness(mlir::func::FuncOp graph);

  const std::vector<Storage> &storages() const { return all; }
  StorageId storageOf(mlir::Value value) const { return places.lookup(value).storage; }
  /// Bytes from the start of the value's storage to the value's first element.
  Bytes offsetOf(mlir::Value value) const { return places.lookup(value).offset; }
  /// True when the value is its storage, and not a part of a larger one.
  bool isWhole(mlir::Value value) const;
  /// Length of time: the number of commands, 1 where there is none.
  int64_t commandCount() const { return commands; }

  /// Number of the command, or none for ops that launch nothing.
  std::optional<int64_t> commandOf(mlir::Operation *op) const;

  /// Sum of live bytes by command, workspaces and state included.
  std::vector<Bytes> liveBytes() const;

  /// Largest sum of live bytes, workspaces included, state excluded.
  Bytes transientPeak() const;

  /// Bytes of all state.
  Bytes stateBytes() const;

private:
  struct Place {
    StorageId storage = 0;
    Bytes offset = 0;
  };
  void numberCommands(mlir::Block &block);
  void create(mlir::Value value, int64_t begin, int64_t end);
  void define(mlir::OpResult result, int64_t begin);
  void join(mlir::Operation &op);
  void merge(StorageId kept, StorageId gone, Bytes offset);
  void dropMerged();

  std::vector<Storage> all;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Operation *, int64_t> numbers;
  std::vector<Bytes> workspaces; ///< by command
  int64_t commands = 0;
};

/// On an op of a placed graph: it runs in the launch of the launching op before it, as one command.
inline constexpr llvm::StringLiteral kTogetherAttr = "stow.together";

/// The ops of the command that `op` begins, itself first; none where `op` begins none.
llvm::SmallVector<mlir::Operation *> opsOfCommand(mlir::Operation *op);

/// True for ops that take no time and no memory: views, constants, the terminator, and ops all of
/// whose parts are placed.
bool launchesNothing(mlir::Operation *op);

/// The value whose bytes `value` is: itself, or what a chain of views looks at.
mlir::Value viewedValue(mlir::Value value);

/// Arena offset of every value of a placed graph, views included.
llvm::DenseMap<mlir::Value, Bytes> arenaOffsets(mlir::func::FuncOp graph);

/// Places parts inside their wholes (stow.inside): operands of concats are produced in the result,
/// slices are read where they lie, each where `target` takes such parts and the sum of live bytes
/// does not rise above its peak for it; undoes what an earlier call did first. Returns the bytes
/// that are stored and copied no more. Where live bytes come out above `wanted`, what raises them
/// above that anywhere is tried without. The method is in PlaceInside.cpp.
Bytes placeInside(mlir::func::FuncOp graph, const Target &target,
                  Bytes wanted = std::numeric_limits<Bytes>::max());

/// False where no order of the ops of a graph, in which nothing is placed yet, lets placeInside
/// place `part` of `op`.
bool mayBePlaced(mlir::Operation *op, const Sharing &part, const Target &target);

/// Marks results that overwrite a dying operand (stow.in_place), in program order. Greedy: an
/// operand that dies here and that the op allows. Returns the bytes of the results placed so.
Bytes shareInPlace(mlir::func::FuncOp graph);

} // namespace stow
