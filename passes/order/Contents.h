// The bytes that values consist of, whoever holds them.
//
// What an op writes is a root. A value is a list of stretches of roots: a view of all its
// operand's, a slice that may be a view of some of them, a concat of those of its inputs.
//
//   a = f()            root 0, 64 bytes      [ 0:0..64 ]
//   b = g()            root 1, 32 bytes      [ 1:0..32 ]
//   y = concat a, b                          [ 0:0..64 | 1:0..32 ]
//   s = slice y                              [ 0:48..64 | 1:0..16 ]
//
// Roots are divided into pieces: the bytes that every reader reads all or none of. Where a result
// may overwrite an operand, both are divided alike, so that each piece has one of its size under
// it.
//
// Joining and slicing channels does the same to every pixel. So values that share bytes are seen as
// rows that are all alike, as many as each of their concats and slices allows; bytes are those of
// one row.
#pragma once

#include "passes/Target.h"
#include "passes/order/CostModel.h"
#include "passes/order/Pieces.h"

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <optional>
#include <vector>

namespace stow {

using RootId = uint32_t;

/// `size` bytes of a root's row from `begin` on.
struct Stretch {
  RootId root = 0;
  Bytes begin = 0, size = 0;
};
using Content = std::vector<Stretch>;

struct Root {
  Bytes size = 0; ///< of one row
  int64_t rows = 1;
  bool isPinned = false;   ///< state or a constant: resident in any case, one piece
  bool isConstant = false; ///< no part of the arena
  bool isShared = false; ///< in some plan its buffer holds other bytes as well, or some of it alone
  bool isUnknown = false;               ///< its bytes cannot be told apart: none is counted
  std::optional<RootId> versionOf = {}; ///< the state that it overwrites
  Pieces pieces = Pieces(0);
};

/// `result` may lie where `operand` dies.
struct Overwrite {
  RootId result = 0;
  mlir::Value operand;
};

/// What runs in every plan: an op, or what a concat copies in every plan.
struct Launch {
  mlir::Operation *op = nullptr;
  std::vector<mlir::Value> reads;
  std::vector<RootId> writes;
  std::vector<Overwrite> overwrites;
  schedule::Cost cost = 0; ///< what no plan runs it for less
  Bytes workspaceBytes = 0;
  bool isRecomputable = false;
};

class Contents {
public:
  /// `graph` has its state bound and nothing placed inside anything; `target` says which parts ops
  /// take.
  Contents(mlir::func::FuncOp graph, const CostModel &costs, const Target &target);

  /// True when something may lie inside something else.
  bool mayShare() const { return isSharing; }

  /// Divides all roots. Those that would be divided into very many pieces become unknown.
  void divide();

  const Content &of(mlir::Value value) const { return contents.find(value)->second; }
  const Root &root(RootId id) const { return roots[id]; }
  const std::vector<Launch> &launches() const { return all; }

private:
  /// By root: the stretches that a concat consists of so far, begin to end.
  using Taken = std::map<RootId, std::map<Bytes, Bytes>>;

  void findRows();
  int64_t rowsOf(mlir::Value value) const { return rows.lookup(value); }
  Bytes rowBytesOf(mlir::Value value) const; ///< of one row
  void findCopies(mlir::Operation &op);
  RootId addRoot(mlir::Value value);
  void define(mlir::Operation &op);
  bool mayLieInside(mlir::Operation *op, const Sharing &part) const;
  bool isOnlyJoined(mlir::Value value) const;
  bool defineSlices(mlir::Operation &op, llvm::ArrayRef<Sharing> parts);
  bool defineJoined(mlir::Operation &op, llvm::ArrayRef<Sharing> parts);
  Content joined(mlir::Operation &op, llvm::ArrayRef<Sharing> parts,
                 llvm::ArrayRef<Content> contentsOfParts) const;
  Content distinct(const Content &given, int64_t rows, Taken &taken, std::vector<RootId> &fresh);
  Launch &launch(mlir::Operation &op, schedule::Cost cost);
  void addOverwrites(Launch &launched, mlir::OpResult result, RootId root);
  bool divideWithin(int64_t allowance);
  int64_t readPieces() const;
  static bool isDivided(const Root &root) { return !root.isPinned && !root.isUnknown; }
  void divideByReads(mlir::Value value);
  int64_t piecesOf(const Overwrite &overwrite) const;
  bool divideAlike(const Overwrite &overwrite);
  void spreadFlags();

  mlir::func::FuncOp graph;
  const CostModel &costs;
  const Target &target;
  std::vector<Root> roots;
  llvm::DenseMap<mlir::Value, Content> contents;
  llvm::DenseMap<mlir::Value, int64_t> rows;
  /// Of ops that copy parts of their results, and of slices that are made for them.
  llvm::DenseMap<mlir::Operation *, schedule::Cost> copyCosts;
  std::vector<Launch> all;
  bool isSharing = false;
  int64_t work = 0; ///< runs of bytes looked at by `divide`
};

} // namespace stow
