// From the placed form to the program an executable runs: commands, state, inputs and outputs.
#pragma once

#include "codegen/Backend.h"

namespace stow::host {

/// Adds to a library call's command what only its device knows; emits an error at the op and fails.
using CompleteCommand = llvm::function_ref<mlir::LogicalResult(mlir::Operation *, Command &)>;

/// Translates every graph of the placed `module`: ops that `target` says are library calls, which it
/// names with the library's `prefix`, and kernels for the others. Fails with a diagnostic at the op.
mlir::FailureOr<BuiltProgram> buildProgram(mlir::ModuleOp module, const Target &target,
                                           mlir::StringRef prefix = "dnnl.",
                                           KernelTarget kernels = KernelTarget::Host,
                                           CompleteCommand complete = {});

/// What the host writes before each run of a placed graph.
std::vector<GraphInput> programInputs(mlir::func::FuncOp graph);

} // namespace stow::host
