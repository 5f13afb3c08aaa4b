// Checks shared by the verify passes. Each emits an error per violation and returns failure when it
// emitted any, so that one run reports everything.
#pragma once

#include "ir/Graphs.h"

#include "llvm/ADT/StringSet.h"

namespace stow {

/// The module claims form `form` and holds functions alone, whose roles suit the form (checkRoles),
/// each with one block of stow ops.
llvm::LogicalResult checkModule(mlir::ModuleOp module, llvm::StringRef form,
                                llvm::ArrayRef<Role> required, llvm::ArrayRef<Role> optional = {});

/// Every function has one of the roles of its form, none has the role of another, and no role of
/// `required` is missing. Only Measure may be there several times.
llvm::LogicalResult checkRoles(mlir::ModuleOp module, llvm::StringRef form,
                               llvm::ArrayRef<Role> required, llvm::ArrayRef<Role> optional);

/// Arguments have distinct names and one of `kinds`; their types suit the kind; stow.init suits the
/// type.
llvm::LogicalResult checkArguments(mlir::func::FuncOp graph, llvm::ArrayRef<ArgumentKind> kinds);

/// Results have distinct names and no state; in a model some may be the next values of its statistics.
llvm::LogicalResult checkOutputs(mlir::func::FuncOp graph);

/// String attribute of an argument or a result, or "".
llvm::StringRef argumentString(mlir::func::FuncOp graph, unsigned index, llvm::StringRef name);
llvm::StringRef resultString(mlir::func::FuncOp graph, unsigned index, llvm::StringRef name);

/// True for ops that only training has: those of the trait, and products that update state.
bool isTrainingOp(mlir::Operation *op);

/// True for optimizer updates.
bool isUpdateOp(mlir::Operation *op);

} // namespace stow
