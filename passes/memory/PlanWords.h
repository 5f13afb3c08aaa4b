// The one place where words of the dialect become words of plans, programs and reports.
#pragma once

#include "ir/Graphs.h"
#include "runtime/format/Program.h"

namespace stow {

/// What the storage of such an argument is called in a plan.
BufferKind bufferKindOf(ArgumentKind kind);

/// What the host writes into such an argument before each run; none for state.
std::optional<InputRole> inputRoleOf(ArgumentKind kind);

StepPhase stepPhaseOf(Phase phase);

/// The role of a graph that is part of a program. Throws Error(Internal) for a function without a
/// role and for the model, which no program holds.
GraphRole graphRoleOf(mlir::func::FuncOp graph);

} // namespace stow
