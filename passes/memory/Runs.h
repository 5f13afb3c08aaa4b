// Ops that run more than once, and where in the user's model they stand.
#pragma once

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace stow {

/// The op that each recomputed clone of `graph` repeats: the one of the same kind, place in the
/// model and types that reads the same values, or clones of them. A clone whose operands match none
/// belongs to the first op of its kind, place and types; one without such an op is left out.
/// O(ops * operands), times the ops of one place.
llvm::DenseMap<mlir::Operation *, mlir::Operation *> repeatedOps(mlir::func::FuncOp graph);

/// The module of the user's model that `location` belongs to, e.g. "layer1.0.conv1"; empty where
/// the file does not say. The importer keeps it beside the node's number.
std::string modulePathOf(mlir::Location location);

} // namespace stow
