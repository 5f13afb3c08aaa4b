// The plan of a placed module, as reports, executables and other tools read it.
#pragma once

#include "runtime/format/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace stow {

/// Seconds that one run of an op takes; 0 = not known, as all are without a function.
using OpSeconds = llvm::function_ref<double(mlir::Operation *)>;

/// Reads offsets, lifetimes, names and reasons off the placed form. Times of the whole step are
/// left to who knows what was not recomputed.
Plan describePlan(mlir::ModuleOp module, OpSeconds secondsOf = {});

/// The part of describePlan for one graph.
GraphPlan describeGraph(mlir::func::FuncOp graph, OpSeconds secondsOf);

} // namespace stow
