// A step with clones, read back as a schedule of the step without.
//
//   prepared   0: conv  1: relu  2: conv backward            ops get their numbers
//   segments   0: conv  1: relu  1: relu  2: conv backward   a clone has its op's
//   schedule   conv, relu, relu again, conv backward
//
// Chen's segments are cloned by a pass (stow-checkpoint); as a schedule they can be improved.
#pragma once

#include "passes/order/ScheduleProblem.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace stow {

/// Numbers of a graph's ops as they were before passes cloned, moved and added some.
using Origins = llvm::DenseMap<mlir::Operation *, int64_t>;
using OpsByOrigin = llvm::DenseMap<int64_t, schedule::OpId>;

/// Numbers the ops, in an attribute that clones inherit.
void numberOps(mlir::func::FuncOp graph);

/// Takes the numbers off again. Ops that were added in between have none.
Origins takeNumbers(mlir::func::FuncOp graph);

/// The ops of a step without clones by their numbers.
OpsByOrigin opsByOrigin(const StepProblem &step, const Origins &origins);

/// The runs of `cloned`, in program order or in that of `order`, as a schedule of `problem`, whose
/// ops are `ops`. Absent where an op has none there. The schedule may still have a fault: what lies
/// inside what is decided for each step by itself.
std::optional<schedule::Solution> readBack(const schedule::Problem &problem, const OpsByOrigin &ops,
                                           const StepProblem &cloned, const Origins &origins,
                                           const std::optional<schedule::Solution> &order);

} // namespace stow
