// Whether a batch may have fewer samples than its step has room for: the rest repeat one of them, with labels that do not count.
#pragma once

#include "compiler/Options.h"
#include "passes/plan/StepVariant.h"

#include "mlir/IR/MLIRContext.h"

namespace stow {

/// True where such a step is the one of the samples that are there: its loss is a sum over labels, or its mean over those that count; no
/// state but the trained parameters' is updated from the samples; and samples do not meet, which is seen by importing the model at one more
/// (passes/microbatch/SampleParts.h).
bool fillsBatches(mlir::MLIRContext &context, const CompileOptions &options, StepVariant variant,
                  const Backend &backend);

} // namespace stow
