// Checks shared by the verify passes. Each emits an error per violation and returns failure when it
// emitted any, so that one run reports everything.
#pragma once

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace stow {

/// The module claims form `form` and holds exactly the functions `graphs`, each with one block of
/// stow ops.
llvm::LogicalResult checkModule(mlir::ModuleOp module, llvm::StringRef form,
                                llvm::ArrayRef<llvm::StringRef> graphs);

/// Arguments have distinct names and one of `kinds`; their types suit the kind; stow.init suits the
/// type.
llvm::LogicalResult checkArguments(mlir::func::FuncOp graph, llvm::ArrayRef<llvm::StringRef> kinds);

/// Results have distinct names and no state.
llvm::LogicalResult checkOutputs(mlir::func::FuncOp graph);

/// String attribute of an argument or a result, or "".
llvm::StringRef argumentString(mlir::func::FuncOp graph, unsigned index, llvm::StringRef name);
llvm::StringRef resultString(mlir::func::FuncOp graph, unsigned index, llvm::StringRef name);

/// True for ops that only training has: variants, gradients, losses, updates.
bool isTrainingOp(mlir::Operation *op);

/// True for optimizer updates.
bool isUpdateOp(mlir::Operation *op);

} // namespace stow
