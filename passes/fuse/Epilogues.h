// Products and the kernels that became part of them, taken apart again.
#pragma once

#include "passes/Target.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace stow {

/// A copy of the prepared step `module` in which each op that stow-fuse-epilogues made is a product and a
/// kernel again, with the workspaces of `target`; null where there is none. An order that computes values
/// again may do so between the two, and then needs less memory and more time.
mlir::OwningOpRef<mlir::ModuleOp> splitEpilogues(mlir::ModuleOp module, const Target &target);

/// `value` in `type`, both scalars of floating point.
mlir::Value converted(mlir::OpBuilder &builder, mlir::Value value, mlir::Type type);

} // namespace stow
