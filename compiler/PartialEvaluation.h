// Evaluation in parts of a batch: the model imported at a smaller batch, of which @eval is taken.
#pragma once

#include "compiler/Options.h"
#include "passes/plan/Evaluation.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace stow {

/// The step form of a variant, or null where the model does not import so. Nothing is said of it: it has been said of the variant that the
/// user asked for.
mlir::OwningOpRef<mlir::ModuleOp> silentStep(mlir::MLIRContext &context,
                                             const CompileOptions &options,
                                             const StepVariant &variant, const Backend &backend);

/// The parts in which the model of `options` can be evaluated (passes/microbatch/SampleParts.h): there are none where the
/// batch cannot be chosen, or a result does not follow from those of parts. Values are stored as in `variant`. All but that
/// must outlive the parts. The model is read when they are asked for.
EvaluationParts evaluationParts(mlir::MLIRContext &context, const CompileOptions &options,
                                const StepVariant &variant, const Backend &backend);

} // namespace stow
