// A step over several batches, in the graphs of a module.
//
//   one batch          train
//   K batches          accumulate x (K - 1), then commit
//   N devices          train on each, which add up their gradients inside it
//
//   @accumulate  forward, backward; adds every gradient to a sum that is state
//   @commit      the same on the last batch; each gradient and its sum go into the parameter's update at once
#pragma once

#include "ir/Graphs.h"

namespace stow {

/// On modules: the number of batches of a step; absent: 1.
inline constexpr llvm::StringLiteral kBatchesAttr = "stow.batches";

/// On modules: the number of devices that run the step together, each on a batch of its own; absent: 1.
inline constexpr llvm::StringLiteral kDevicesAttr = "stow.devices";

/// On arguments of parameters and of optimizer state: the type of the state of which each of the module's devices has a shard, the argument.
inline constexpr llvm::StringLiteral kShardOfAttr = "stow.shard_of";

/// The result by which a step's loss is divided, where batches have different divisors.
inline constexpr llvm::StringLiteral kLossDivisorName = "loss.divisor";

/// On modules: the number of elements that this divisor sums, by which it and the loss are scaled.
inline constexpr llvm::StringLiteral kDivisorTermsAttr = "stow.divisor_terms";

/// On graphs, where a step has several shapes: the name of theirs. Absent: the first, which is the largest.
inline constexpr llvm::StringLiteral kShapeAttr = "stow.shape";

/// On input arguments of such graphs: the label that does not count, of labels that reach the loss in the model unchanged.
inline constexpr llvm::StringLiteral kPaddingAttr = "stow.padding";

int64_t batchesPerStep(mlir::ModuleOp module);
int64_t devicesOf(mlir::ModuleOp module);

/// Adds a line to what plans of the module say (kNotesAttr).
void addNote(mlir::ModuleOp module, llvm::StringRef note);

/// The name of a graph's shape; empty for the first, or the only one.
llvm::StringRef graphShape(mlir::func::FuncOp graph);

/// The graph that a module's step, of several shapes that of the first, ends with: of role train, else of role commit, else, where a module
/// holds no more of a step than that, of role accumulate. Null without any.
mlir::func::FuncOp stepGraph(mlir::ModuleOp module);

/// True for graphs that run in training: roles train, accumulate and commit.
bool isStepGraph(mlir::func::FuncOp graph);

/// How often a graph runs in a step of its shape; 0 for graphs of other roles.
int64_t runsPerStep(mlir::func::FuncOp graph);

} // namespace stow
