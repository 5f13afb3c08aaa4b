// The sparse matrices of stow.resample, one per resampled dimension.
#pragma once

#include "ir/StowResampleOps.h"

namespace stow {

/// A sparse matrix in compressed rows: row i sums weights[k] * x[sources[k]] over k in
/// [starts[i], starts[i + 1]).
struct SparseRows {
  std::vector<int64_t> starts = {0};
  std::vector<int64_t> sources;
  std::vector<double> weights;

  int64_t rows() const { return static_cast<int64_t>(starts.size()) - 1; }

  /// Appends an element to the row under construction, then ends it.
  void add(int64_t source, double weight) {
    sources.push_back(source);
    weights.push_back(weight);
  }
  void endRow() { starts.push_back(static_cast<int64_t>(sources.size())); }

  /// The transposed matrix; `columns` is the number of sources there are. Rows stay sorted.
  SparseRows transposed(int64_t columns) const;

  bool isIdentity() const;
};

/// The matrix along one dimension.
struct AxisRows {
  int64_t axis = 0;
  SparseRows rows;
};

/// The matrices of `op`, in the order of its axes.
llvm::SmallVector<AxisRows> axisRowsOf(ResampleOp op);

/// The attributes that stand for `matrices`, whose axes ascend.
void setAxisRows(ResampleOp::Properties &properties, mlir::Builder builder,
                 llvm::ArrayRef<AxisRows> matrices);

} // namespace stow
