// Passes that turn a model (F0) into a training step (F1), in the order in which they run.
#ifndef STOW_AUTODIFF_PASSES_TD
#define STOW_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def SplitTrainEvalPass : Pass<"stow-split-train-eval", "::mlir::ModuleOp"> {
  let summary = "Make a training and an evaluation graph of a model";
  let description = [{
    What: replaces the model by two clones, `@train` and `@eval`, of these roles. In `@train` every
    `stow.batch_norm` becomes `stow.batch_norm_training`, its running statistics are updated by
    elementwise ops (momentum and unbiased variance as in PyTorch; with one element per channel the
    variance stays biased) and returned as results that carry `stow.state`, as the next values are
    that the model itself has for its statistics; every `stow.dropout`
    becomes `stow.dropout_training` with its own stream, all reading one new argument of kind
    `seed`; every `stow.max_pool` becomes `stow.max_pool_training`,
    which saves what the target wants back for the gradient. Every `stow.random` becomes a
    `stow.draw`, in `@train` with a stream and that seed, in `@eval` with seed 0. In `@eval` dropouts
    vanish, a Bernoulli number is its mean, and no statistic gets a next value. Every
    `stow.in_training` is its first operand in `@train`, its second in `@eval`. Normalizations that are `frozen`, with
    `freeze-batch-norm` all of them, keep their running statistics in `@train` as well. With `ranks` the others normalize by the statistics of all
    ranks' batches together, as elementwise ops around two sums over the ranks (stow.all_reduce).

    Requires: a module of form "model" (stow-verify-model).

    Ensures: `@train` and `@eval` with the model's arguments, attributes and locations; `@train` has
    gradients for all of the dialect's model ops.

    Example:
    ```mlir
    %y = stow.dropout %x {ratio = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    // becomes in @train
    %y = stow.dropout_training %x, %seed {ratio = 0.5 : f64, stream = 0 : i64}
        : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
    ```
  }];
  let options = [
    Option<"freezeBatchNorm", "freeze-batch-norm", "bool", /*default=*/"false",
           "Normalize with the running statistics in training too, and leave them as they are">,
    Option<"ranks", "ranks", "int64_t", /*default=*/"1",
           "Devices whose batches are normalized together, by statistics of all their samples">,
    Option<"disableDropout", "disable-dropout", "bool", /*default=*/"false",
           "Leave dropouts, and Bernoulli numbers, out of the training graph too">,
  ];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def AttachLossPass : Pass<"stow-attach-loss", "::mlir::ModuleOp"> {
  let summary = "Compute a loss from the training graph's output";
  let description = [{
    What: adds an argument of kind `target` to `@train`, computes the loss from it and the model's
    output, and returns it as the first result, named "loss"; the model's outputs are no longer
    returned. `cross-entropy` reads integer classes: an output [N,C] or [N,C,1,...] takes targets
    [N], an output [N,C,d...] takes [N,d...] and is rearranged into rows; so does [N,d...,C] with
    the setting `class-axis`. Scores [N*d,C], N being the samples of the data inputs, take [N,d]. A
    softmax or log_softmax
    over the classes that ends the model is taken off in `@train`, since the loss applies it (a
    remark says so); `@eval` keeps it, which the module's `stow.output_activation` says. With
    `probabilities` the targets are a distribution over the classes, of the output's shape. `nll` is
    the same for logarithms of probabilities; behind a log_softmax it is the cross-entropy of its
    operand. `bce-with-logits` (a final sigmoid is taken off), `kl-div`, `mse`, `l1`, `smooth-l1` and
    `huber` read a tensor of the output's shape. `output` takes the output itself for the loss; it
    reads no target. All are torch.nn.functional's, reductions and weights included. Weights become
    an argument of kind `statistic`. Ops that nothing reads any more are erased.

    Requires: `@train` of stow-split-train-eval with one float output, or the option `output`.

    Ensures: the first result of `@train` is a scalar named "loss"; results that carry `stow.state`
    follow unchanged.

    Example:
    ```mlir
    return %logits : tensor<8x10xf32>
    // becomes
    %row_loss, %lse = stow.cross_entropy_rows %logits, %target {ignore_index = -100 : i64}
        : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
    %sum = stow.reduce_sum %row_loss {axes = array<i64: 0>, keepdims = false}
        : (tensor<8xf32>) -> tensor<f32>
    %count = stow.count_valid %target {element_type = f32, ignore_index = -100 : i64}
        : (tensor<8xi64>) -> tensor<f32>
    %loss = stow.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %loss : tensor<f32>
    ```
  }];
  let options = [
    Option<"loss", "loss", "::stow::LossSpec", /*default=*/"::stow::LossSpec()",
           "What is minimized, as the compiler's --loss: NAME[:SETTING=VALUE,...]">,
    Option<"output", "output", "std::string", /*default=*/"\"\"",
           "Name of the output the loss reads, for models with several">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def AutodiffPass : Pass<"stow-autodiff", "::mlir::ModuleOp"> {
  let summary = "Build the backward of the training graph";
  let description = [{
    What: appends to `@train` the ops that compute the gradient of the loss with respect to every
    parameter, in reverse order of the forward, by each op's GradientOpInterface. New ops carry
    `stow.phase = #stow.phase<backward>` and the location of the op they differentiate. Contributions to one
    value are added as soon as the second one exists. Nothing is built that no parameter needs. A
    parameter that gets no gradient is reported by a warning and stays as it is: it is frozen. Float
    arguments of kind `input` that the option `input-gradients` names get a gradient, too. With
    `scale-loss` all gradients are those of the loss times the state `loss_scale`, which
    stow-attach-optimizer takes out again.

    Where an op offers several values to save, `saved` picks: `output`, `mask` or `input` for all of
    them, or `auto`. `auto` builds the backward of a copy of the graph once before, with the gradient
    of every alternative, and takes the one that keeps the fewest bytes beside those that the
    gradients of other ops read. For relu that is the output when the gradient of one of its readers
    keeps it alive anyway (convolution, matmul, products, ...), else the input when that is an
    argument or kept alive the same way, else a mask if it is smaller than the output.

    Requires: `@train` with the scalar result "loss" of stow-attach-loss.

    Ensures: one more result per parameter on the loss's path, named "<parameter>.grad" and marked
    `stow.gradient_of`; one per named input, "<input>.grad", which stays a result. An op on the path that has no gradient is an error that names it.

    Example:
    ```mlir
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // gets, with %dy the gradient of %y,
    %dw = stow.mul %dy, %x {stow.phase = #stow.phase<backward>}
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let options = [
    Option<"saved", "saved", "std::string", /*default=*/"\"auto\"",
           "What an op with a choice saves: auto, output, mask or input">,
    ListOption<"inputGradients", "input-gradients", "std::string",
               "Names of inputs whose gradient is a result of the step">,
    Option<"scaleLoss", "scale-loss", "bool", /*default=*/"false",
           "Start from new state of the name loss_scale in place of 1">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def ExpandBatchNormPass : Pass<"stow-expand-batch-norm", "::mlir::ModuleOp"> {
  let summary = "Normalize a concat with kernels that read it where it lies";
  let description = [{
    What: a batch normalization that the target says is to be decomposed (on the host: one whose
    operand is a concat of channels), and its gradient, become channel_moments, batch_norm_scale_grad and elementwise ops. Library calls take dense tensors;
    these read parts of a larger tensor, so that stow-place-inside can produce one concat inside the
    next. Statistics are computed once for every input that is no concat and joined: those of a
    concat are the concat of those of its inputs. An input that is normalized itself is expanded too,
    and its gradient reads it from the concat: it dies where it is copied. The gradient of x becomes one kernel together with
    the sum it is added to. Formulas: y = (x - mean) * slope + bias with slope = scale / deviation,
    deviation = sqrt(variance + epsilon); dx = dy * slope - (x - mean) * (dscale * slope / deviation /
    n) - dbias * slope / n, n elements a channel.

    Requires: graphs of stow-autodiff.

    Ensures: no batch normalization and no gradient of one reads a concat of channels that is
    normalized, or an input of one.

    Example:
    ```mlir
    %y = stow.concat %a, %b {axis = 1 : i64} : ...
    %z, %m, %v = stow.batch_norm_training %y, %s, %c {epsilon = 1.0e-5 : f64} : ...
    // becomes
    %ma, %va = stow.channel_moments %a : ...
    %mb, %vb = stow.channel_moments %b : ...
    %y = stow.concat %a, %b {axis = 1 : i64} : ...
    %m = stow.concat %ma, %mb {axis = 0 : i64} : ...
    %v = stow.concat %va, %vb {axis = 0 : i64} : ...
    %z = (%y - %m) * %s / sqrt(%v + 1.0e-5) + %c
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def AttachOptimizerPass : Pass<"stow-attach-optimizer", "::mlir::ModuleOp"> {
  let summary = "Update every parameter as soon as its gradient exists";
  let description = [{
    What: replaces each gradient result of `@train` by an update op (`stow.sgd`, `stow.adam`, ...,
    `stow.phase = #stow.phase<update>`) that stands right after both the gradient's definition and the last
    reader of the parameter's old value, views included: the optimizer runs inside the backward.
    Adds the arguments it reads: `learning_rate` (scalar f32), `step` (scalar i64, counted from 1,
    where the optimizer reads it) and the state of each parameter, e.g.
    "<parameter>.momentum"; a name that the model has taken gets a number, "<parameter>.momentum.2".
    Adafactor keeps the second moments of a tensor of rank 2 or more as their means over its last and
    its last but one dimension. New values are returned as results that carry `stow.state`.

    Weight decay applies to every parameter, as in PyTorch, unless a group says otherwise, which
    gives the parameters that its pattern (a glob over names) matches first a weight decay and a scale
    of the learning rate of their own. `no-decay` names kinds of
    parameters of rank 1 or less without decay: `norm`, those that a normalization reads or that are
    factors of a product, and `bias`, the others.

    With `eight-bit-percent` the state of matrices (no tables that are read by index, no kernels of convolutions) of 4,096 elements or more, a
    multiple of 256, carries `stow.eight_bits`, "signed" or, where it is never negative, "nonnegative".

    With `shard-percent`, in a module for several devices (stow-reduce-over-ranks), the state of parameters whose update goes element by
    element lies in shards: an argument is a vector of a rank's part, `stow.shard_of` the type of what it is a part of. Such a
    gradient is reduced to a shard (stow.reduce_scatter; stow.shard of the sum where clip-norm reads that), the parameter's shard (stow.shard)
    updated, and the parameter put together of all ranks' (stow.all_gather). The bits are those of state that is whole.

    `clip-value` clamps each element of a gradient. `clip-norm` scales all gradients by one number so
    that their common norm is at most that (torch.nn.utils.clip_grad_norm_): then all updates stand at
    the end of the graph, and all gradients are alive together. What groups and clipping do is said
    by remarks and by the module's `stow.notes`, which the plan shows.

    Requires: `@train` with the gradient results of stow-autodiff.

    Ensures: a module of form "step" (stow-verify-step); no result carries `stow.gradient_of`.

    Example:
    ```mlir
    return %loss, %dw : tensor<f32>, tensor<4xf32>
    // becomes
    %w1 = stow.sgd %w, %dw, %learning_rate {momentum = 0.0 : f64, nesterov = false,
        stow.phase = #stow.phase<update>, weight_decay = 0.0 : f64}
        : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %loss, %w1 : tensor<f32>, tensor<4xf32>
    ```
  }];
  let options = [
    Option<"optimizer", "optimizer", "::stow::OptimizerSpec",
           /*default=*/"::stow::parseOptimizer(\"sgd\")",
           "How parameters are updated, as the compiler's --optimizer: NAME[:SETTING=VALUE,...]">,
    Option<"clipNorm", "clip-norm", "double", /*default=*/"0.0",
           "Largest norm of all gradients together; 0: any">,
    Option<"clipValue", "clip-value", "double", /*default=*/"0.0",
           "Largest absolute value of an element of a gradient; 0: any">,
    Option<"lossScale", "loss-scale", "std::string", /*default=*/"\"dynamic\"",
           "Where the loss is scaled: dynamic, updates wait for all gradients; delayed, for their own">,
    Option<"eightBitPercent", "eight-bit-percent", "int64_t", /*default=*/"0",
           "Of the state of large matrices so much is for stow-quantize-states, the largest first">,
    Option<"shardPercent", "shard-percent", "int64_t", /*default=*/"0",
           "Of the state of parameters that may be in shards so much is, the largest first">,
    Option<"shardsParameters", "shards-parameters", "bool", /*default=*/"false",
           "Parameters are to lie in shards as well (stow-shard-parameters): also those without state of their type">,
    ListOption<"groups", "groups", "::stow::ParameterGroup",
               "Parameters with settings of their own, as the compiler's --group, each in braces">,
    ListOption<"noDecay", "no-decay", "std::string",
               "Kinds of parameters without weight decay: norm, bias">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_AUTODIFF_PASSES_TD
