// A step of several shapes: a graph for each beside the others, over one state. Each shape is prepared and planned apart, and joined.
//
//   prepared     train, eval (largest)    train, eval                  train, eval    each module holds the state of all, in the same order
//                                                                                     and layouts: it lies at the same offsets
//   planned      within the budget        within what the largest takes anyway
//   joined       train, eval              train, eval @sequence=256    train, eval @sequence=128
//                arena: the largest of all; what several graphs compute alike is one kernel
#pragma once

#include "passes/plan/Question.h"

namespace stow {

/// The name of a constant that a shape has for itself: "NAME@SHAPE".
std::string nameInShape(llvm::StringRef name, llvm::StringRef shape);

/// Readies the step form of a smaller shape for the passes that choose layouts. Constants that are not those of `first`, the prepared
/// step of the largest, get a name of their own (nameInShape); other state lies as it does there. Throws Error(BadInput) where a parameter
/// has another size in this shape.
void takeStateOf(mlir::ModuleOp first, llvm::StringRef shape, mlir::ModuleOp step);

/// True for the same first values (kInitAttr). Elements of a file are named anew by each import.
bool isSameInit(mlir::Attribute init, mlir::Attribute other);

/// The label that a loss leaves out which reads `labels`, perhaps some of them or in another order, but each as it is. Absent where
/// none does.
std::optional<int64_t> ignoredLabel(mlir::Value labels);

/// Notes at the inputs of a step form which of them are labels of a loss in the model, and the label that does not count
/// (kPaddingAttr): what batches are padded with.
void noteLabels(mlir::ModuleOp step);

/// Gives every graph of every step the state of all of them, in one order. The steps are prepared, of the largest shape first. Throws
/// Error(Internal) where state of one name has several types.
void shareState(llvm::ArrayRef<mlir::ModuleOp> prepared);

/// The plan of another shape of the step that `largest` answers for: the fastest in the arena that it takes; where there is none, the
/// one of the question's budget, or of none. `shape` and `samples` as in StepVariant. Throws as answer.
StepAnswer answerForShape(Steps &steps, const StepQuestion &question, const StepAnswer &largest,
                          int64_t shape, std::optional<int64_t> samples);

/// Copies the graphs of `placed`, the step of the shape called `shape`, into `largest`, behind its own, and checks the whole. Throws
/// Error(Internal) where state lies elsewhere or a check fails.
void joinShape(mlir::ModuleOp placed, llvm::StringRef shape, mlir::ModuleOp largest);

} // namespace stow
