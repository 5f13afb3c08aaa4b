// Evaluation in parts of a batch: the model imported at a smaller batch, of which @eval is taken.
#pragma once

#include "compiler/Options.h"
#include "passes/plan/Evaluation.h"

#include "mlir/IR/MLIRContext.h"

namespace stow {

/// The parts in which the model of `options` can be evaluated (passes/microbatch/SampleParts.h): there are none where the
/// batch cannot be chosen, or a result does not follow from those of parts. Values are stored as in `variant`. All but that
/// must outlive the parts. The model is read when they are asked for.
EvaluationParts evaluationParts(mlir::MLIRContext &context, const CompileOptions &options,
                                const StepVariant &variant, const Backend &backend);

} // namespace stow
