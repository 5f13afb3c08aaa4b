// Copies between the arena and slow memory, which run beside the other commands.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowOffloadOps.h.inc"

namespace stow {

/// On a copy out of a placed graph: where its bytes begin in slow memory.
inline constexpr llvm::StringLiteral kSlowOffsetAttr = "stow.slow_offset";

/// On a placed module, where something travels: bytes of slow memory.
inline constexpr llvm::StringLiteral kSlowBytesAttr = "stow.slow_bytes";

/// What tokens of copies are: a tensor without elements.
mlir::RankedTensorType copyTokenType(mlir::MLIRContext *context);

/// The copy out that made a token.
CopyOutOp copyOutOf(mlir::Value token);

/// Bytes that the copy of `op`, a copy out or in, takes to the other memory; 0 for other ops.
Bytes copiedBytes(mlir::Operation *op);

/// True for copies and awaits, which compute nothing.
bool isCopyOrAwait(mlir::Operation *op);

} // namespace stow
