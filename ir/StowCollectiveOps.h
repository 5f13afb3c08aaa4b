// The ops that the ranks of a step run together.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowCollectiveOps.h.inc"

namespace stow {

/// The vector of a rank's shard of a value, which all `ranks` have the same type of.
mlir::RankedTensorType shardType(mlir::RankedTensorType whole, int64_t ranks);

} // namespace stow
