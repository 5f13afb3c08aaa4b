// Documents that lie in one row: which numbers of queries and keys a mask compares, and positions that count within documents.
//
//   position    0 1 2 3 0 1 2 0 1        query and key are of one document where their numbers are equal,
//   document    0 0 0 0 1 1 1 2 2        and are then as far apart as their positions are
#pragma once

#include "ir/Stow.h"

#include <optional>

namespace stow {

/// A number of each query, or of each key.
struct RowNumbers {
  mlir::Value numbers;             ///< its elements are those of [lead..., rows], in that order
  llvm::SmallVector<int64_t> lead; ///< broadcasts to the leading dimensions of the scores
  bool isOfQueries = false;
  int64_t added = 0; ///< to the numbers

  bool isSameAs(const RowNumbers &other) const {
    return numbers == other.numbers && lead == other.lead && added == other.added;
  }
  /// Under a mask that repeats or reshapes `inner`, which they were read from, to `mask`; false where they do not follow.
  bool follow(mlir::Value mask, mlir::Value inner);
  /// As a tensor [lead..., rows].
  mlir::Value tensor(mlir::OpBuilder &builder, mlir::Location location) const;
};

/// Numbers of the documents that queries and keys belong to: a query sees the keys of its own alone.
struct Documents {
  RowNumbers queries, keys;

  /// Every key is of the document of the query in its place.
  bool areShared() const { return queries.isSameAs(keys); }
  bool operator==(const Documents &other) const {
    return queries.isSameAs(other.queries) && keys.isSameAs(other.keys);
  }
};

/// The numbers of queries and of keys that `a` and `b` are, in either order; `first` is the one of `a`.
struct RowPair {
  RowNumbers first, second;
};
std::optional<RowPair> rowNumbersOf(mlir::Value a, mlir::Value b, int64_t rows, int64_t keys);

/// True where positions go up by 1 from row to row of every document, so that query and key of one are as far apart as their
/// positions are: a document begins, by the running sum that numbers them, wherever a position is not the one before and 1.
bool countWithin(const RowNumbers &positions, const Documents &documents);

} // namespace stow
