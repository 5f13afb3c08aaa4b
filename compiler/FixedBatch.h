// Files whose batch cannot be chosen: what is said instead of the largest that fits.
#pragma once

#include "compiler/Options.h"

#include "mlir/IR/MLIRContext.h"

#include <optional>
#include <string>

namespace stow {

/// Samples in the first input of the file as it is; 0 where it is symbolic or the file does not import.
int64_t batchOfFile(mlir::MLIRContext &context, const CompileOptions &options);

/// A batch that is part of the file.
struct FixedBatch {
  int64_t batch = 0;
  std::string reason; ///< why there is no other, at which node, and what to do about it
};

/// Absent where the model can be had at other batches, or cannot be read at all. Reads the model
/// twice. Prints nothing.
std::optional<FixedBatch> findFixedBatch(mlir::MLIRContext &context, const CompileOptions &options);

} // namespace stow
