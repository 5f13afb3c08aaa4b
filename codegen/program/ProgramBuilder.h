// From the placed form to the program an executable runs: commands, state, inputs and outputs.
#pragma once

#include "codegen/Backend.h"

namespace stow {

/// What a device's programs have of their own.
class CommandRules {
public:
  virtual ~CommandRules() = default;

  virtual KernelTarget kernels() const = 0;

  /// The command of an op that is a library call made of several (Target::libraryCall), without what all commands have, and
  /// its operands: values lie where `offsetOf` says. None where it is a call like others. Emits an error at the op and fails.
  virtual mlir::FailureOr<std::optional<Command>>
  commandOf(mlir::Operation *op, llvm::function_ref<Bytes(mlir::Value)> offsetOf,
            KernelModule &kernels) const {
    return std::optional<Command>();
  }

  /// Adds to a library call's command what only its device knows, kernels among that. Emits an error at the op and fails.
  virtual mlir::LogicalResult complete(mlir::Operation *op, Command &command,
                                       KernelModule &kernels) const {
    return mlir::success();
  }
};

/// Translates every graph of the placed `module`: ops that `target` says are library calls, and kernels for the others.
/// Fails with a diagnostic at the op.
mlir::FailureOr<BuiltProgram> buildProgram(mlir::ModuleOp module, const Target &target,
                                           const CommandRules &rules);

/// What the host writes before each run of a placed graph.
std::vector<GraphInput> programInputs(mlir::func::FuncOp graph);

} // namespace stow
