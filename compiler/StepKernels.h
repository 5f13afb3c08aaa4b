// The kernels of a prepared step: its launching ops, of which those that are the same are one kernel.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace stow {

/// The launching ops of the step's graphs. Copies take no time of the processor's: the folder says how long they take.
llvm::SmallVector<mlir::Operation *> launchesOf(mlir::ModuleOp module);

/// `op` as the only op of a graph: its operands are data, its results are returned. Attributes that
/// belong to its place in the step are gone.
mlir::func::FuncOp isolate(mlir::Operation *op, mlir::OpBuilder &builder, const std::string &name);

/// Equal for ops that compute the same on the same shapes and layouts.
std::string keyOf(mlir::Operation *op);

/// Numbers the kernels of a prepared step (passes/memory/KernelNumber.h).
void numberKernels(mlir::ModuleOp prepared);

} // namespace stow
