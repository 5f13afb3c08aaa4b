// The ways to run a library call among which the planner chooses: less scratch against more time.
//
//   %y = stow.conv2d ... {stow.implementations = [{name = "engine 70", slowdown = 1.0, workspace = 205668368},
//                                                 {name = "engine 28", slowdown = 1.05, workspace = 0}],
//                         stow.implementation = 1}
//
// stow-plan-workspaces writes them down as the target names them, each with less scratch than the one
// before it; without a budget the first is taken. Ops without them run in one way.
#pragma once

#include "passes/Target.h"

namespace stow {

/// On an op: an array of dictionaries, the fastest first; and which of them is taken.
inline constexpr llvm::StringLiteral kImplementationsAttr = "stow.implementations";
inline constexpr llvm::StringLiteral kImplementationAttr = "stow.implementation";

/// Writes down what `choices` offer that is worth having: without those that another one takes no
/// more time than, and no more scratch. The first is taken.
void setImplementations(mlir::Operation *op, llvm::ArrayRef<Target::Implementation> choices,
                        Bytes alignment);

/// In their order; empty where the op runs in one way.
llvm::SmallVector<Target::Implementation> implementationsOf(mlir::Operation *op);

/// The number of the one that is taken; 0 where the op runs in one way.
unsigned chosenImplementation(mlir::Operation *op);

/// Takes one, and sets the op's scratch bytes accordingly. Nothing where the op runs in one way.
void chooseImplementation(mlir::Operation *op, unsigned number);

} // namespace stow
