// The plan of a placed module, as reports, executables and other tools read it.
#pragma once

#include "runtime/format/Plan.h"

#include "mlir/IR/BuiltinOps.h"

namespace stow {

/// Reads offsets, lifetimes and names off the placed form. Sources name the user's nodes.
Plan describePlan(mlir::ModuleOp module);

/// Cost of recomputed ops over the cost of all others, in floating-point operations.
double extraTimeFraction(mlir::ModuleOp module);

} // namespace stow
