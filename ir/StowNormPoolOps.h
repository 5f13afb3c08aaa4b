// The ops of batch normalization together with max pooling.
#pragma once

#include "ir/Stow.h"

namespace stow {

/// The shape of positions in windows of `elements`, one for each element of a tensor of shape `pooled`:
/// two lie in a byte where they fit and channels are a multiple of 16.
llvm::SmallVector<int64_t> positionsShape(llvm::ArrayRef<int64_t> pooled, int64_t elements);

} // namespace stow

#define GET_OP_CLASSES
#include "ir/StowNormPoolOps.h.inc"
