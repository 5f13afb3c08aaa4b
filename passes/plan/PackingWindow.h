// Where packing needs more than the sum of live bytes: plan again with less room there.
//
//   arena                 ##             The commands during which some buffer lies above `target`,
//   target  .............####.......     the sum of live bytes, make windows (#). They withhold the
//              ___/\____/    \___        overshoot, so that the schedule frees as much there.
//             /                  \
//           +-------------[  ]----+-> command
#pragma once

#include "ir/plan/schedule/Capacity.h"
#include "passes/order/ScheduleProblem.h"

#include "mlir/IR/BuiltinOps.h"

namespace stow {

/// By command of the placed training graph: the op of `step` that runs there for the first time;
/// absent where an op runs again, and for commands that are no ops of the problem. `step` is what
/// the graph was scheduled by.
std::vector<std::optional<schedule::OpId>> firstRuns(mlir::ModuleOp placed,
                                                     const StepProblem &step);

/// The windows of `placed` in which a buffer lies above `target` bytes from the arena's start, each
/// from the last first run at or before it to the first one at or behind it.
std::vector<schedule::Window>
windowsAbove(mlir::ModuleOp placed, const std::vector<std::optional<schedule::OpId>> &firstRuns,
             Bytes target, Bytes withheldBytes);

} // namespace stow
