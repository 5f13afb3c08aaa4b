// Passes that turn a model (F0) into a training step (F1).
#pragma once

#include "passes/Target.h"
#include "runtime/format/Loss.h"
#include "runtime/format/Optimizer.h"

#include "mlir/Pass/Pass.h"

namespace stow {

#define GEN_PASS_DECL
#include "passes/autodiff/Passes.h.inc"

/// Registers the passes of this folder that need no target.
void registerAutodiffPasses();

// `target` must outlive the pass.
std::unique_ptr<mlir::Pass> createSplitTrainEvalPass(const Target &target,
                                                     const SplitTrainEvalPassOptions &options = {});
std::unique_ptr<mlir::Pass> createExpandBatchNormPass(const Target &target);

} // namespace stow
