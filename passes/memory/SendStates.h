// State in slow memory, of graphs that are made later than those that stow-send-states has seen, and undone where a step is timed.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace stow {

/// stow-send-states for steps over one state, of several shapes: what travels does so in each of them, at the same place. A tensor that
/// may not in one of them lies in the arena. `percent`, from 0 to 100, and `kinds` as the pass has them.
void sendStates(llvm::ArrayRef<mlir::ModuleOp> steps, int64_t percent, llvm::StringRef kinds);

/// Lets the weights of `graph`, an evaluation, lie in slow memory that do so in `like`, fetched as stow-send-states fetches them. False where
/// one of them has another type than there, or can not be fetched; the graph is of no use then.
bool fetchWeightsLike(mlir::func::FuncOp like, mlir::func::FuncOp graph);

/// Undoes stow-send-states: all state lies in the arena. No schedule may have moved copies apart or fetched twice.
void withStateInArena(mlir::func::FuncOp graph);

/// Gives the weights of `graph`, which reads none of them, the types that they have in the arena, where they lie in slow memory.
void withWeightsInArena(mlir::func::FuncOp graph);

} // namespace stow
