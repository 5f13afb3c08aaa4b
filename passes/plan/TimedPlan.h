// A placed step as data, with its times.
#pragma once

#include "passes/order/CostModel.h"
#include "runtime/format/Plan.h"

#include "mlir/IR/BuiltinOps.h"

namespace stow {

/// The plan of a placed step with its times by `costs`. What needs other plans, as the arena
/// without recomputation, is left to the caller.
Plan planOf(mlir::ModuleOp placed, const CostModel &costs);

} // namespace stow
