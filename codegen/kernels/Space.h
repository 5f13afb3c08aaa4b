// Iteration spaces of kernels: nested extents with one stride per access.
//
// Layouts are taken in by the strides: the dimensions are sorted the way the first access lies in
// memory, dimensions of extent 1 vanish, and neighbours are merged wherever every access walks them
// as one. A bias over channels-last activations, for example, becomes two dimensions:
//
//   y [8,64,56,56] "0,2,3,1"   b [64,1,1]        extents  25088   64
//                                                y           64    1
//                                                b            0    1
//
// Accesses need not be tensors: a row-major count or a coordinate is an access, too, and keeps
// dimensions apart just where it has to.
#pragma once

#include "ir/Stow.h"

namespace stow {

struct Space {
  struct Dim {
    int64_t extent = 1;
    llvm::SmallVector<int64_t> strides; ///< elements, one per access
    bool operator==(const Dim &) const = default;
  };
  llvm::SmallVector<Dim> dims;        ///< outermost first
  llvm::SmallVector<int64_t> offsets; ///< element of position 0, one per access

  int64_t elements() const;

  /// Sorts by the strides of access 0 (0 strides outermost), drops extent 1, merges neighbours.
  /// Afterwards there is at least one dimension.
  void collapse();

  /// Makes `dim` the innermost.
  void moveInnermost(size_t dim);

  /// Splits off the innermost dimension: the lane axis.
  Dim takeInnermost();
};

/// Strides in elements of each logical dimension; nothing for blocked layouts.
std::optional<llvm::SmallVector<int64_t>> stridesOf(mlir::RankedTensorType type);

/// Strides of row-major storage.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// Aligns strides of a tensor of `shape` to `space` by NumPy's rule: broadcast dimensions get 0.
llvm::SmallVector<int64_t> broadcastStrides(llvm::ArrayRef<int64_t> shape,
                                            llvm::ArrayRef<int64_t> strides,
                                            llvm::ArrayRef<int64_t> space);

/// A space over `shape` with one row of strides per access, each as long as `shape`.
Space makeSpace(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<llvm::SmallVector<int64_t>> accesses);

} // namespace stow
