// A step over several batches: its halves are planned apart, under the same budget, and joined.
//
//   prepared          accumulate   commit   eval
//   planned apart     accumulate |          |        what both use is the state at the bottom of the arena:
//                                | commit   eval     each module holds all of it, in the same order
//   joined            accumulate   commit   eval     arena: the larger of the two
#pragma once

#include "passes/plan/Candidate.h"

namespace stow {

struct StepHalves {
  mlir::OwningOpRef<mlir::ModuleOp> first; ///< @accumulate, with all state of the step
  mlir::OwningOpRef<mlir::ModuleOp> last;  ///< everything else
};

/// Of a module whose step is over several batches.
StepHalves splitHalves(mlir::ModuleOp prepared);

/// Copies the step graph of `first` into `last`, behind its own. Throws Error(Internal) where state lies elsewhere.
void joinGraphs(mlir::ModuleOp first, mlir::ModuleOp last);

/// The step whose first half, `first`, runs `repeats` times before `last`. Refused where one of them
/// is.
StepChoice joinChoices(StepChoice first, StepChoice last, int64_t repeats);

} // namespace stow
