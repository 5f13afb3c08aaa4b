// --precision=bf16 or fp16: what of the step stays in f32, chosen once for every budget.
//
//   step in 16 bits -- with everything kept no larger than in f32 --> taken
//        ^   |
//        |   | the nodes that run where it is larger, in f32
//        +---+ a few times, then all of it
//
// The choice depends on the step alone: what is rounded to 16 bits, and with it every bit of the result, no budget changes, nor
// what is computed again. What may make 16 bits the larger one: calls that convert what they cannot cut into pieces, casts of
// weights, engines with more scratch, gradients that wait for a verdict.
#pragma once

#include "compiler/Pipeline.h"

namespace stow {

/// The same step stored and computed in f32.
CompileOptions inF32(const CompileOptions &options);

/// The step of `options`, which are those of one graph run (perBatch); of one in 16 bits what stays in f32 is chosen, and
/// its options say what that is. Throws Error after diagnostics.
StepWithPlanner chooseStep(mlir::MLIRContext &context, const CompileOptions &options,
                           StageTimer &timer, const BudgetOptions &planning = {});

/// The options of that step.
CompileOptions asStored(mlir::MLIRContext &context, const CompileOptions &options);

/// The smallest arena of a step in 16 bits had it been in f32; absent where it is, or where the device has no way to run that.
std::optional<Bytes> smallestInF32(mlir::MLIRContext &context, const CompileOptions &options);

} // namespace stow
