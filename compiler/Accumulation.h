// --accumulate: how many batches a step has.
#pragma once

#include "compiler/Pipeline.h"

namespace stow {

/// Compiles with options whose step is the one that is compiled.
using CompileStep = llvm::function_ref<CompiledPlan(const CompileOptions &)>;

/// `options` with the batch of one graph run in place of a step's: --batch divided by --accumulate.
/// Throws Error(BadInput) where the model's batch cannot be chosen or does not divide.
CompileOptions perBatch(mlir::MLIRContext &context, const CompileOptions &options);

/// The step in as many batches as --accumulate says, or in one where that takes no more memory and
/// gives the same sums; with --accumulate=auto in as many as take the least time within the budget.
/// The plan's notes say which and why. Throws Error as `compile` does.
CompiledPlan compileAccumulated(mlir::MLIRContext &context, const CompileOptions &options,
                                CompileStep compile);

/// Why nothing that is done about activations lowers this plan's peak: a sentence, or nothing where
/// state does not outweigh them.
std::string whyStateIsThePeak(const Plan &plan);

} // namespace stow
