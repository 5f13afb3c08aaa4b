// Which element types a model may train with.
#pragma once

#include "passes/Target.h"

namespace stow {

/// Fails with an error for each parameter of `module`, a model, that is floating point but not
/// float32, and for each op on values of a type that `target` does not run it in. Casts, masks and
/// positions in double or float16 inside a float32 model are fine. The errors name tensor or node,
/// the type and what to do.
mlir::LogicalResult checkTypes(mlir::ModuleOp module, const Target &target);

} // namespace stow
