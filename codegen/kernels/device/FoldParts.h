// Folds of few rows on a device, in parts: several blocks share a row, so that 64 channels keep all
// multiprocessors busy.
//
//   kernel 0       row 0 |part 0|part 1|...      partial sums to the op's workspace
//                  row 1 |part 0|part 1|...
//   kernel 1       joins them, and folds a row's parts again where the op does: variances
//   last kernel    joins what the ones before have left, a block a row, and writes the results
//
// The number of parts, and so the order in which a row is summed, follows from extents alone: a program
// gives the same bits on chips with more or fewer multiprocessors.
#pragma once

#include "codegen/kernels/Kernels.h"

namespace stow {

/// How the op's kernel is cut.
struct FoldParts {
  int64_t rows = 1, parts = 1;
  int64_t folds = 1;  ///< of a row, each of which needs the one before
  int64_t values = 1; ///< results of all folds of a row

  /// Partial results: of each value, of each part, of all rows.
  int64_t scratchElements() const { return values * parts * rows; }
  Bytes scratchBytes() const { return scratchElements() * Bytes{sizeof(float)}; }
};

/// The parts of a fold, computed in f32, whose rows are too few and long enough; nothing for other ops.
std::optional<FoldParts> foldParts(mlir::Operation *op);

/// Adds the kernels of such an op in the order in which they run, `folds` + 1 of them. Each is given the
/// op's operands and results and, last, the partial results: `scratchElements()` in f32. Alignments are
/// those of operands and results. Fails with a diagnostic at the op.
mlir::FailureOr<llvm::SmallVector<KernelInfo>> addFoldInParts(KernelModule &kernels,
                                                              mlir::Operation *op,
                                                              const FoldParts &parts,
                                                              llvm::ArrayRef<int64_t> alignments);

} // namespace stow
