// What the functions of a module, their arguments and their ops say of themselves: roles, kinds and
// phases. Everything that looks for a graph asks for its role, never for its name.
#pragma once

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace stow {

/// The role of a function; none where it has no stow.role.
std::optional<Role> roleOf(mlir::func::FuncOp graph);
void setRole(mlir::func::FuncOp graph, Role role);

/// The first function of that role, or null.
mlir::func::FuncOp findGraph(mlir::ModuleOp module, Role role);

/// What an argument holds; none where it has no stow.kind.
std::optional<ArgumentKind> kindOfArgument(mlir::func::FuncOp graph, unsigned argument);
void setKindOfArgument(mlir::func::FuncOp graph, unsigned argument, ArgumentKind kind);

/// True for what lives in the arena from step to step: parameters, statistics, optimizer state.
bool isState(ArgumentKind kind);

/// True for an argument of such a kind.
bool isStateArgument(mlir::func::FuncOp graph, unsigned argument);

/// The phase of an op; forward where it has no stow.phase.
Phase phaseOf(mlir::Operation *op);
inline bool isForward(mlir::Operation *op) { return phaseOf(op) == Phase::Forward; }
void setPhase(mlir::Operation *op, Phase phase);

/// Puts `op` into the phase that `model` is in.
void copyPhase(mlir::Operation *model, mlir::Operation *op);

} // namespace stow
