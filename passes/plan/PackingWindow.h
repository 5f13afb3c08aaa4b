// Where packing needs more than the sum of live bytes: plan again with less room there.
//
//   arena                 ##             The steps in which some buffer lies above `target`
//   target  .............####.......     are the window (#). Its ops are given the overshoot
//              ___/\____/    \___        as scratch, so that the schedule frees as much
//             /                  \       there.
//           +-------------[  ]----+-> step
#pragma once

#include "passes/solvers/schedule/PlanSchedule.h"

#include "mlir/IR/BuiltinOps.h"

namespace stow {

/// Ops of the training graph, by position of its commands, that run while a buffer of `placed` lies
/// above `target` (bytes from the arena's start).
std::vector<size_t> stepsAbove(mlir::ModuleOp placed, Bytes target);

/// A problem that asks for `bytes` more of scratch from the ops that `solution` runs at `steps`.
schedule::Problem withLessRoom(const schedule::Problem &problem, const schedule::Solution &solution,
                               const std::vector<size_t> &steps, Bytes bytes);

/// `solution` brought below `budget` bytes in `problem` by further recomputation; absent if cuts
/// find no way. O(rounds of cuts).
std::optional<schedule::Solution> reduceTo(const schedule::Problem &problem,
                                           const schedule::Solution &solution, Bytes budget);

} // namespace stow
