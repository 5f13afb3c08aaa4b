// Library ops of the dialect as calls of the host library (runtime/host/Library.h).
#pragma once

#include "ir/Stow.h"
#include "runtime/format/Program.h"

namespace stow::host {

/// The tensor a value stands for, at `offset`.
Operand operandOf(mlir::Type type, Bytes offset);

/// `op` as the library's call named `call` (HostTarget::libraryCall). Its operands are the op's
/// operands, then its results, at offset 0.
Command libraryCommand(mlir::Operation *op, llvm::StringRef call);

} // namespace stow::host
