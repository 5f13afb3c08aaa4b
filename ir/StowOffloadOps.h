// Copies between the arena and slow memory, which run beside the other commands.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowOffloadOps.h.inc"

namespace stow {

/// On an argument that is a token: the type of the state that lies in slow memory, row-major.
inline constexpr llvm::StringLiteral kSlowStateAttr = "stow.slow_state";

/// On a copy out of a placed graph, and on an argument whose state lies in slow memory: where its bytes begin there.
inline constexpr llvm::StringLiteral kSlowOffsetAttr = "stow.slow_offset";

/// On a placed module, where something travels: bytes of slow memory.
inline constexpr llvm::StringLiteral kSlowBytesAttr = "stow.slow_bytes";

/// What tokens of copies are: a tensor without elements.
mlir::RankedTensorType copyTokenType(mlir::MLIRContext *context);

/// The copy out that made a token; null where it stands for state.
CopyOutOp copyOutOf(mlir::Value token);

/// The type of the state that an argument stands for; null where it is none in slow memory.
mlir::RankedTensorType slowStateOf(mlir::Value token);

/// Whether a token stands for a weight, frozen or trained, which may be fetched any number of times until its new value is sent.
bool isWeightInSlowMemory(mlir::Value token);

/// Whether an op is a copy of state or the await of one: from its place in slow memory, or to it.
bool fetchesState(mlir::Operation *op);
bool sendsState(mlir::Operation *op);

/// Bytes that the copy of `op`, a copy out or in, takes to the other memory; 0 for other ops.
Bytes copiedBytes(mlir::Operation *op);

/// True for copies and awaits, which compute nothing.
bool isCopyOrAwait(mlir::Operation *op);

} // namespace stow
