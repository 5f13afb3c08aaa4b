// Passes that check that a module holds the form it claims. They change nothing.
#ifndef STOW_VERIFY_PASSES_TD
#define STOW_VERIFY_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyModelPass : Pass<"stow-verify-model", "::mlir::ModuleOp"> {
  let summary = "Check that a module is of form \"model\" (F0)";
  let description = [{
    What: emits an error for every violation of the form "model":

    M1: the module's `stow.form` is "model".
    M2: its only function has the role model and one block of stow ops.
    M3: every argument has a `stow.name` of its own and a `stow.kind`: input, parameter or
    statistic; parameters are float tensors.
    M4: a `stow.init` is a distribution or elements of the argument's type.
    M5: every result has a `stow.name` of its own, or in `stow.state` the name of a statistic of its
    type, whose next value it is; no statistic has two.
    M6: no op belongs to a later form: training variants, gradients, losses, updates, fused kernels,
    reorders.
    M7: no attribute of a later form (`stow.phase`, `stow.in_place`, ...) and no layouts.

    Requires: any module.

    Ensures: the constraints hold, or the pass fails.

    Example:
    ```mlir
    module attributes {stow.form = "model"} {
      func.func @model(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                       %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
          -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
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
    S2: it has one function of role eval and either one of role train, or one of role accumulate and one
    of role commit; each has one block of stow ops. The graphs that train are all but eval.
    S3: every argument has a `stow.name` of its own and a `stow.kind`: input, parameter or statistic; in
    graphs that train also target, optimizer or seed; in train and commit learning_rate or step; in
    accumulate and commit accumulator. Parameters, optimizer state and accumulators are float tensors, learning_rate
    is tensor<f32>, step and seed are tensor<i64>, and there is at most one of each of those three.
    S4: arguments of one name have the same type and kind in all graphs.
    S5: a `stow.init` is a distribution or elements of the argument's type; optimizer state and accumulators have one.
    S6: the first result of a graph that trains is a scalar float named "loss"; every other one has a `stow.name` (the
    gradient of an input), or carries `stow.state` and has the type of the state argument it names; no
    state is returned twice, optimizer state is always returned by train and commit, accumulators by
    accumulate, and no gradient is left (`stow.gradient_of`).
    S7: the results of eval have names of their own and no `stow.state`.
    S8: graphs that train hold no op of the model form (stow.dropout, stow.max_pool, stow.in_training); eval holds none of
    training (variants, gradients, updates).
    S9: updates, and only they, are of phase update, and an op of the forward reads no value of the
    backward; eval has none of backward and update.
    S10: an update overwrites arguments, its results are returned under their names, and nothing
    reads such an argument after its update.
    S11: a module for several devices (`stow.devices`) reduces over as many ranks, in graphs that train alone, and no other module
    does; the loss and the new values of parameters and optimizer state are computed from inputs, targets, seed and statistics,
    which each rank has of its own, by way of stow.all_reduce and stow.reduce_scatter alone, and from shards by way of
    stow.all_gather alone. Optimizer state that each rank has a shard of (`stow.shard_of`) is such a shard, and differs.

    Requires: any module.

    Ensures: the constraints hold, or the pass fails.

    Example:
    ```mlir
    return %loss, %w1 : tensor<f32>, tensor<4xf32>
    // with result attributes {stow.name = "loss"}, {stow.state = "w"}
    ```
  }];
}

def VerifyOrderedPass : Pass<"stow-verify-ordered", "::mlir::ModuleOp"> {
  let summary = "Check that a module is of form \"ordered\" (F2)";
  let description = [{
    What: emits an error for every violation of the form "ordered":

    O1: the module's `stow.form` is "ordered"; every function has a role of its own, none that of the
    model; no elementwise op and no stow.constant remain.
    O2: no op reads a value, or a view of it, whose storage an earlier op has overwritten.
    O3: `stow.in_place` pairs name operands that the op may overwrite, of equal stored size, each
    storage once, no state, and none that the op reads through another operand as well.
    O4: every state result is produced by an op that updates the state argument of that name.
    O5: inputs in `stow.inside` of a concat are op results with the strides of their box in the
    result, none in two concats; slices that are views have their operand's strides; nothing else has
    a layout with gaps, but views of the same runs. What overwrites a part overwrites the whole.
    O6: a view sees the elements of its operand in the same order.
    O7: one await_out waits for every copy_out, one await_in for every copy_in, and nothing else reads what a copy_in brings,
    nor a token that is no copy or await, but that of state that lies in slow memory (`stow.slow_state`), whose new value is returned as the token of
    its copy_out.
    O8: S11 holds.
    O9: one await waits for every collective with `stow.started`, and nothing else reads what it makes, but that of an all_gather is returned;
    one with `stow.with_next` is an all_reduce, as is the next collective, which is started before anything awaits it.

    Requires: any module.

    Ensures: the constraints hold, or the pass fails.

    Example:
    ```mlir
    %dx = stow.map %dy, %y {stow.in_place = array<i64: 0, 0>} : ...
    // nothing below reads %dy
    ```
  }];
}

def VerifyPlacedPass : Pass<"stow-verify-placed", "::mlir::ModuleOp"> {
  let summary = "Check that a module is of form \"placed\" (F3), by replaying it";
  let description = [{
    What: follows what every byte of the arena holds, command by command, and emits an error when

    P1: a function has no role or that of another, or an offset is missing, outside the arena, or not aligned;
    P2: an op reads an operand that is no longer whole;
    P3: a result overlaps an operand it may not overwrite, another result, or the op's workspace;
    P4: state lies at different offsets in two graphs, or is not whole, as its old or its new value,
    at the end;
    P5: an input that a concat lists in `stow.inside` does not lie where it belongs in the result, a
    slice that is a view does not have its operand's strides, or anything else has gaps;
    P6: an op that lists `stow.implementations` does not have the workspace of the one it names;
    P7: an op marked `stow.together` has no launch before it to run in, or touches what another op of that
    launch writes, scratch too, or writes what one touches;
    P8: what may come at `stow.next_offset` from the op with `stow.next_inputs` on is not whole at the graph's end,
    takes bytes that are read behind that op, or lies on an argument of any graph; or there are places without
    such an op, two of these, or one that begins no launch;
    P9: a buffer is written between a copy_out of it and its await, or read or written between a copy_in and its await; a copy is not
    awaited, or twice; what a copy_in fetches has been overwritten in slow memory, or is while a copy is under way there; or a copy_out
    has no whole blocks of `stow.slow_bytes` at its `stow.slow_offset`; or state that lies in slow memory has other places in two graphs,
    or is not there in the end: itself, or the copy of its new value;
    P10: what a collective with `stow.started` writes is read or written, or what it reads is written, before its await; it has a workspace;
    it is not awaited, or twice.

    Parts of concats need not be aligned. It shares no code with the passes that decide storage.

    Requires: any module.

    Ensures: the constraints hold, or the pass fails.

    Example:
    ```mlir
    %y = stow.matmul %x, %w {stow.offsets = array<i64: 4096>} : ...
    ```
  }];
}

#endif // STOW_VERIFY_PASSES_TD
