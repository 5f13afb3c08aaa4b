// The plan of a placed module, as reports, executables and other tools read it.
#pragma once

#include "runtime/format/Plan.h"

#include "mlir/IR/BuiltinOps.h"

namespace stow {

/// Reads offsets, lifetimes and names off the placed form. Sources name the user's nodes. Times are
/// left to who knows what ops cost.
Plan describePlan(mlir::ModuleOp module);

} // namespace stow
