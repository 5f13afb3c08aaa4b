// --precision=bf16 or fp16: never more memory than in f32.
//
//   plan in 16 bits -- fits the budget, or takes no more than the plan in f32 would --> taken
//         |
//         | does not
//         v
//   the nodes at the peak in f32, one by one, or else all --+-- the first that fits a budget, else the one that
//   all in 16 bits within what f32 takes -------------------+   takes less time, and a note --> taken
//
// What may make 16 bits the larger one: calls that convert what they cannot cut into pieces, casts of weights,
// engines with more scratch, gradients that wait for a verdict.
#pragma once

#include "compiler/Accumulation.h"

namespace stow {

/// The step form with kernels of options, as BudgetPlanner takes it.
using PrepareStep =
    llvm::function_ref<mlir::OwningOpRef<mlir::ModuleOp>(const CompileOptions &, const Backend &)>;

/// One way to run the step, and what its plan says of it.
struct Way {
  CompileOptions options;
  std::string note;
};

/// What `compileMixed` goes back to under a budget that the step in 16 bits does not fit, in its order; nothing where the device has
/// no way to run the step in f32. `options` are those of one graph run (perBatch).
std::vector<Way> waysInF32(mlir::MLIRContext &context, const CompileOptions &options,
                           CompileStep compile, PrepareStep prepare);

/// The step stored in 16 bits, or in part or all of it in f32 where it would take more memory than in f32. The plan's notes
/// say so. Throws Error as `compile` does: Error(Infeasible) where neither fits.
CompiledPlan compileMixed(mlir::MLIRContext &context, const CompileOptions &options,
                          CompileStep compile, PrepareStep prepare);

} // namespace stow
