// The ops that the ranks of a step run together.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowCollectiveOps.h.inc"

namespace stow {

/// On a collective: it only begins where it stands, and an await waits for its end.
inline constexpr llvm::StringLiteral kStartedAttr = "stow.started";

/// On a started all_reduce: it is exchanged together with the collective after it, a started all_reduce, and begins with that one.
inline constexpr llvm::StringLiteral kWithNextAttr = "stow.with_next";

/// True for ops in which all ranks take part.
bool isCollective(mlir::Operation *op);

bool isStartedCollective(mlir::Operation *op);

/// True for collectives that put shards together.
bool isGather(mlir::Operation *op);

/// What a collective sums up or puts together: of a gather its result, of others their operand.
mlir::Value wholeOf(mlir::Operation *collective);

/// The collective whose end `op` awaits; null where it awaits none.
mlir::Operation *awaitedCollective(mlir::Operation *op);

/// The vector of a rank's shard of a value, which all `ranks` have the same type of.
mlir::RankedTensorType shardType(mlir::RankedTensorType whole, int64_t ranks);

} // namespace stow
