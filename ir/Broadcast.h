// What elementwise ops share: the types of their results and whose storage these may take.
#pragma once

#include "ir/Stow.h"

namespace stow {

/// Result type of an elementwise op: the broadcast of all operands, element type `element`.
llvm::LogicalResult inferBroadcast(std::optional<mlir::Location> location,
                                   mlir::ValueRange operands, mlir::Type element,
                                   llvm::SmallVectorImpl<mlir::Type> &types);

/// The one element type of all operands, of floats the widest.
llvm::FailureOr<mlir::Type> commonElement(std::optional<mlir::Location> location,
                                          mlir::ValueRange operands);

/// An elementwise result may overwrite any operand of its own type.
Sharings overwritesOfOneType(mlir::Operation *op);

} // namespace stow
