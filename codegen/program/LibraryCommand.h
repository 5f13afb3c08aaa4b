// Library ops of the dialect as calls of a device's library (runtime/format/CommandOp.h).
#pragma once

#include "ir/Stow.h"
#include "runtime/format/Program.h"

#include <optional>

namespace stow {

class ProductMapOp;

/// The tensor a value stands for, at `offset`.
Operand operandOf(mlir::Type type, Bytes offset);

/// `op` as `call` (Target::libraryCall). Its operands are the op's operands, then its results, at offset 0.
Command libraryCommand(mlir::Operation *op, CommandOp call);

/// What ranks do together in `op`, or about the shard of one; none where it is no such op.
std::optional<CommandOp> commandOfRanks(mlir::Operation *op);

/// True where the body adds the only input, which has the result's type, to the product, and does nothing else: libraries
/// add to what they write.
bool addsToProduct(ProductMapOp op);

} // namespace stow
