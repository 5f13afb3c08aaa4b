// What an op does with the rows of a chain: which of its operands have them, what the same op is on some of them, and what
// becomes of its results.
//
//     logits [2,4,V]  ->  log_softmax along V    ->  [2,4,V]       rows from rows: 8 of them
//     [2,4,V]         ->  take_along V           ->  [2,4,1]       rows, narrower
//     [2,4,V]         ->  reduce_mean over all   ->  []            each row reduced, then all rows: only the first is of the chain
//     [8,V], [8,d]    ->  matmul, transposed     ->  [V,d]         a sum over rows
//
// Rows are the linear index over leading dimensions, so that a value keeps them under every shape whose leading dimensions
// have as many elements.
#pragma once

#include "ir/Stow.h"

#include <optional>

namespace stow {

/// The rows of a chain, in any of its values.
struct ChainRows {
  int64_t count = 0;
  bool areOfMatrix = false; ///< leading dimensions are rows, all others columns; else dimension 0

  /// How many leading dimensions of `type` are rows; none where it has not these rows.
  std::optional<unsigned> dimensionsOf(mlir::RankedTensorType type) const;

  bool areOf(mlir::Value value) const { return dimensionsOf(tensorType(value)).has_value(); }

  /// Elements of `value` in a row.
  int64_t widthOf(mlir::Value value) const { return tensorType(value).getNumElements() / count; }

  /// What `chunkRows` rows of a tensor of all rows are: of a matrix [chunkRows, columns], or [chunkRows] of one of rank 1.
  mlir::RankedTensorType typeOf(mlir::RankedTensorType whole, int64_t chunkRows) const;
};

enum class RowResults {
  Rows, ///< have the chain's rows
  Sums, ///< sums over all rows, which those over chunks add up to
  Reduced, ///< of each row one number, of which `RowRule::rowAxes` are reduced further, outside of the chain
};

struct RowRule {
  /// An operand, and the shape in which it is read.
  struct Read {
    unsigned operand;
    llvm::SmallVector<int64_t> shape;
  };

  llvm::SmallVector<Read, 4> rows;     ///< operands that have rows, as wholes
  llvm::SmallVector<Read, 1> repeated; ///< what several rows share: has rows once it is repeated
  llvm::SmallVector<Read, 2>
      alike; ///< the same for each row, in the shape for chunks; those not named keep theirs
  llvm::SmallVector<mlir::Value, 4> through; ///< operands and results of a chain that goes on
  llvm::SmallVector<mlir::Value, 2> across;  ///< those of a chain that ends where they are narrower
  RowResults results = RowResults::Rows;
  llvm::SmallVector<int64_t> rowAxes; ///< of the operand's dimensions
  /// What an op on a chunk has instead of the whole's.
  llvm::SmallVector<mlir::NamedAttribute, 2> attributes;

  bool readsRowsOf(unsigned operand) const;
  bool hasRowResults() const { return results == RowResults::Rows; }
};

/// What `op` does with rows; none where they meet in it.
std::optional<RowRule> rowRuleOf(mlir::Operation *op, const ChainRows &rows);

} // namespace stow
