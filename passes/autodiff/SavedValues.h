// Which of the values it could save an op saves: seen in a backward that is built for nothing else.
#pragma once

#include "ir/Gradients.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace stow {

/// The alternative of each op that has a choice and a gradient.
using SavedChoices = llvm::DenseMap<mlir::Operation *, llvm::StringRef>;

/// Chooses what keeps the fewest bytes beyond those that the gradients of ops without a choice keep
/// anyway; of equals the one that the op lists first. `loss` and `inputs` are as for buildBackward,
/// whose errors it emits.
mlir::FailureOr<SavedChoices> chooseSaved(mlir::func::FuncOp graph, mlir::Value loss,
                                          llvm::ArrayRef<mlir::BlockArgument> inputs);

} // namespace stow
