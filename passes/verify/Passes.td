// Passes that check that a module holds the form it claims. They change nothing.
#ifndef STOW_VERIFY_PASSES_TD
#define STOW_VERIFY_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyModelPass : Pass<"stow-verify-model", "::mlir::ModuleOp"> {
  let summary = "Check that a module is of form \"model\" (F0)";
  let description = [{
    What: emits an error for every violation of the form "model":

    M1: the module's `stow.form` is "model".
    M2: its only function is `@model`, with one block of stow ops.
    M3: every argument has a `stow.name` of its own and a `stow.kind`: input, parameter or
    statistic; parameters and statistics are float tensors.
    M4: a `stow.init` is a distribution or elements of the argument's type.
    M5: every result has a `stow.name` of its own and no `stow.state`.
    M6: no op belongs to a later form: training variants, gradients, losses, updates, fused kernels,
    reorders.
    M7: no attribute of a later form (`stow.phase`, `stow.in_place`, ...) and no layouts.

    Requires: any module.

    Ensures: the constraints hold, or the pass fails.

    Example:
    ```mlir
    module attributes {stow.form = "model"} {
      func.func @model(%x: tensor<4xf32> {stow.name = "x", stow.kind = "input"},
                       %w: tensor<4xf32> {stow.name = "w", stow.kind = "parameter"})
          -> (tensor<4xf32> {stow.name = "y"}) {
        %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        return %y : tensor<4xf32>
      }
    }
    ```
  }];
}

def VerifyStepPass : Pass<"stow-verify-step", "::mlir::ModuleOp"> {
  let summary = "Check that a module is of form \"step\" (F1)";
  let description = [{
    What: emits an error for every violation of the form "step":

    S1: the module's `stow.form` is "step".
    S2: its only functions are `@train` and `@eval`, each with one block of stow ops.
    S3: every argument has a `stow.name` of its own and a `stow.kind`: input, parameter or statistic
    in both, target, optimizer, learning_rate, step or seed in `@train` only; parameters, statistics
    and optimizer state are float tensors, learning_rate is tensor<f32>, step and seed are
    tensor<i64>, and there is at most one of each of those three.
    S4: an argument of `@eval` has the type and kind that `@train`'s argument of that name has.
    S5: a `stow.init` is a distribution or elements of the argument's type; optimizer state has one.
    S6: `@train`'s first result is a scalar float named "loss"; every other one carries `stow.state`
    and has the type of the state argument it names; no state is returned twice, optimizer state is
    always returned, and no gradient is left (`stow.gradient_of`).
    S7: `@eval`'s results have names of their own and no `stow.state`.
    S8: `@train` holds no op of the model form (stow.dropout, stow.max_pool); `@eval` holds none of
    training (variants, gradients, losses, updates).
    S9: `stow.phase` is forward, backward or update, updates and only they have "update", and an op
    of the forward reads no value of the backward; `@eval` has none of backward and update.
    S10: an update overwrites arguments, its results are returned under their names, and nothing
    reads such an argument after its update.

    Requires: any module.

    Ensures: the constraints hold, or the pass fails.

    Example:
    ```mlir
    return %loss, %w1 : tensor<f32>, tensor<4xf32>
    // with result attributes {stow.name = "loss"}, {stow.state = "w"}
    ```
  }];
}

#endif // STOW_VERIFY_PASSES_TD
