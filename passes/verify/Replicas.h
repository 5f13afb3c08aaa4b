// That the ranks of a step keep equal copies of what they train.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace stow {

/// Of a module for several devices (stow.devices): its training graph reduces over as many ranks, and what is the same
/// on all ranks stays so: loss, parameters and optimizer state are computed from values of one rank's batch, of its
/// drawn numbers and running statistics by way of stow.all_reduce alone. Of any other module: it has no reduction. Emits an
/// error per violation. O(ops).
llvm::LogicalResult checkReplicas(mlir::ModuleOp module);

} // namespace stow
