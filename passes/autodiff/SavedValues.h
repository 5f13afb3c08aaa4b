// Which of the values it could save an op saves, and what saving costs.
#pragma once

#include "ir/Gradients.h"

namespace stow {

/// True when the gradient of a reader of `value` (through views too) reads `value` itself, so that
/// it stays in memory until the backward whatever else is saved.
bool isReadByReadersGradient(mlir::Value value, Gradients &gradients);

/// The alternative with the fewest extra bytes: the output when a reader keeps it anyway, else the
/// input when it is an argument or kept the same way, else a mask if one byte per element is less
/// than the output, else the output.
llvm::StringRef cheapestAlternative(mlir::Operation *op, Gradients &gradients);

} // namespace stow
