// Which results of a graph on a batch follow from those of its parts.
//
// A graph whose samples do not meet gives the same rows whatever else is in the batch. Whether they meet is seen by
// comparing the graph with itself at another batch, op by op: dimensions whose extents differ hold samples.
//
//   batch 8            batch 9
//   x    [8,64]        [9,64]        rows: grows as the batch does
//   w    [10,64]       [10,64]       fixed
//   y    [8,10]        [9,10]        rows, since no growing dimension is contracted
//   l    [8]           [9]           rows
//   sum  []            []            a sum over samples: that of the batch is the sum of its parts'
//
// Where a statistic of the batch goes back into rows, as in x - mean(x), samples meet. Not seen is what hides
// behind an index: rows that a gather takes are taken to be the sample's own.
#pragma once

#include "runtime/base/Joining.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>

namespace stow {

struct SampleParts {
  llvm::SmallVector<Joining> results; ///< of the graph, in order
  std::string obstacle;               ///< why there are no parts; empty: there are
};

/// Of `graph`, which is `other` at another batch: `batch` samples against `otherBatch`.
SampleParts samplePartsOf(mlir::func::FuncOp graph, mlir::func::FuncOp other, int64_t batch,
                          int64_t otherBatch);

} // namespace stow
