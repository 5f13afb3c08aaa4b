// Sums of rows by index on a device: see Scatter (EmbeddingKernels.cpp) for the host's.
#pragma once

#include "codegen/kernels/Emit.h"

namespace stow {

/// What is summed, and where to. All tensors are row-major.
struct ScatterProblem {
  Buffer dy, indices, dtable; ///< [count, width], [count], [rows, width]
  int64_t count, rows, width;
  std::optional<uint64_t> padding; ///< a row whose indices count for nothing
  /// Another gradient, which the sums are added to, and [count, width] for the sums themselves, each
  /// in the place of the first of its rows of dy. They may lie where dtable and dy do.
  std::optional<Buffer> gradient, sums;
};

/// Emits dtable = sums of dy's rows by index, in the order of the indices; of rows that many of a thousand indices name, sums of
/// parts of that order, which the indices alone decide. Of others the bits are the host's. The table and dy are walked once, the indices by each of a bounded
/// number of blocks.
void emitDeviceScatter(KernelFrame &frame, const ScatterProblem &problem);

} // namespace stow
