// Passes that make a step of several batches, in the order in which they run; stow-autodiff is between them.
#ifndef STOW_MICROBATCH_PASSES_TD
#define STOW_MICROBATCH_PASSES_TD

include "mlir/Pass/PassBase.td"

def SeparateDivisorPass : Pass<"stow-separate-divisor", "::mlir::ModuleOp"> {
  let summary = "Return a loss's divisor beside it, so that several batches have one";
  let description = [{
    What: where the loss is a quotient whose divisor no parameter influences (a cross-entropy over the
    classes that count, or by their weights), `@train` returns the dividend as "loss" and the divisor
    as one more result, "loss.divisor". The mean over several batches is the sum of their dividends
    over the sum of their divisors, which stow-accumulate-gradients makes of it; the mean of their
    quotients is another number where batches have different divisors. Both are scaled by 1 over the
    number of elements that the divisor sums, so that gradients keep their size; over `terms`, where batches of
    other sizes are summed with these: all by the same number.

    Requires: `@train` of stow-attach-loss, before stow-autodiff.

    Ensures: at most one more result, a scalar named "loss.divisor", and `stow.divisor_terms` beside it.

    Example:
    ```mlir
    %loss = stow.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %loss : tensor<f32>
    // becomes, with the target [8]
    %0 = stow.mul %sum, %eighth : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = stow.mul %count, %eighth : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
    ```
  }];
  let options = [
    Option<"terms", "terms", "int64_t", /*default=*/"0",
           "Elements by which both are scaled; 0: those that the divisor sums">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def AccumulateGradientsPass : Pass<"stow-accumulate-gradients", "::mlir::ModuleOp"> {
  let summary = "Make a step of several batches";
  let description = [{
    What: the step becomes one of `batches` batches. A clone of `@train`, `@accumulate`, adds the
    gradient of every parameter to a sum, an argument of kind `accumulator` named
    "<parameter>.gradient_sum", and returns that as its new value; so it does with the loss,
    "loss.sum". A name that the model has taken gets a number. In `@train` a gradient is the sum and
    the last batch's gradient together, and so is the loss. Where the loss is a mean (`mean`) both are divided by the number of batches; where it has a divisor (stow-separate-divisor),
    by the sum of the divisors. stow-attach-optimizer puts the updates into `@train`, each as soon as
    its gradient is final, and gives it the role commit. Whoever runs the graphs sets the sums to zero
    before the first batch of a step.

    With `keep-sums` the gradient is written over its sum: for updates that wait for all gradients
    (clip-norm, dynamic loss scaling).

    With `ranks` the step is of as many devices, each of which runs `batches` batches. What each has together with its sum is added up over the
    ranks (stow.all_reduce), in both graphs, and the mean is that of all batches. Whoever runs the graphs sets the sums of all ranks but the first to zero before
    every batch: the new sum is then ((sum + x of rank 0) + x of rank 1) + ..., and that of a step has the bits of one device on batch 0 of each rank, batch 1
    of each, and so on. "loss" of `@accumulate` is the sum so far, which is the same on all ranks.

    A batch normalization in training mode is warned about: it sees one batch at a time.

    Requires: `@train` with the gradient results of stow-autodiff, none of an input.

    Ensures: `@accumulate`, of role accumulate, beside `@train`; the module's `stow.batches`, with `ranks` its `stow.devices` and S11 of stow-verify-step.

    Example:
    ```mlir
    func.func @train(%x: ..., %w: ...) { ... return %loss, %dw : tensor<f32>, tensor<4xf32> }
    // becomes, with batches=2 mean=true
    func.func @train(%x: ..., %w: ..., %sum: tensor<4xf32>, %losses: tensor<f32>) {
      ...
      %0 = stow.add %sum, %dw : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = stow.mul %0, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      ...
    }
    func.func @accumulate(%x: ..., %w: ..., %sum: tensor<4xf32>, %losses: tensor<f32>) {
      ...
      %0 = stow.add %sum, %dw : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = stow.add %losses, %loss : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %loss, %0, %1 : tensor<f32>, tensor<4xf32>, tensor<f32>
    }
    ```
  }];
  let options = [
    Option<"batches", "batches", "int64_t", /*default=*/"2", "Batches of a step, 2 or more">,
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "Devices that run the step, each on as many batches">,
    Option<"mean", "mean", "bool", /*default=*/"true",
           "The loss of a step is the mean of its batches' losses, not their sum">,
    Option<"keepSums", "keep-sums", "bool", /*default=*/"false",
           "Write final gradients over their sums">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def ReduceOverRanksPass : Pass<"stow-reduce-over-ranks", "::mlir::ModuleOp"> {
  let summary = "Make a step of several devices";
  let description = [{
    What: the step becomes one that `ranks` devices run, each on a batch of its own. In `@train` the gradient of every parameter
    becomes its sum over the ranks (stow.all_reduce), and so does the loss. Where the loss is a mean (`mean`) both are divided by the
    number of ranks; where it has a divisor (stow-separate-divisor), by the sum of the divisors. What is computed from sums is the
    same on all ranks; stow-attach-optimizer puts updates behind them, so that parameters stay the same too. Sums are made in
    the ranks' order: they have the bits of stow-accumulate-gradients on the same batches.

    A batch normalization in training mode is warned about: it sees the batch of one rank.

    Requires: `@train` with the gradient results of stow-autodiff, none of an input, and no step over several batches, which stow-accumulate-gradients makes one of several devices itself.

    Ensures: the module's `stow.devices`; S11 of stow-verify-step.

    Example:
    ```mlir
    func.func @train(%x: ..., %w: ...) { ... return %loss, %dw : tensor<f32>, tensor<4xf32> }
    // becomes, with ranks=2 mean=true
    func.func @train(%x: ..., %w: ...) {
      ...
      %0 = stow.all_reduce %dw {ranks = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = stow.mul %0, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      ...
    }
    ```
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"2", "Devices that run the step, 2 or more">,
    Option<"mean", "mean", "bool", /*default=*/"true",
           "The loss of a step is the mean of its batches' losses, not their sum">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def ShardParametersPass : Pass<"stow-shard-parameters", "::mlir::ModuleOp"> {
  let summary = "Keep a shard of each parameter on every device, and put the whole together where it is read";
  let description = [{
    What: parameters whose state lies in shards (`shard-percent` of stow-attach-optimizer) lie in shards themselves, the largest first until
    `percent` of their bytes do. In every graph such an argument becomes the vector of a rank's shard, `stow.shard_of` the type of the
    whole. An update reads and writes the shard: the copy of it (stow.shard) and the new value's stow.all_gather fall away. Everything else reads
    what a stow.unshard in front of the first reader puts together, an op that may run again: whether the whole is kept from the forward to
    the backward or put together anew is the planner's choice, as of any value. The bits are those of parameters that are whole.

    Requires: the step form of a module for several devices, without layouts.

    Ensures: the step form; S11.

    Example:
    ```mlir
    func.func @train(%w: tensor<16x10xf32>, ...) {
      %y = stow.matmul %x, %w : ...
      ...
      %0 = stow.shard %w {ranks = 4 : i64} : (tensor<16x10xf32>) -> tensor<40xf32>
      %1 = stow.sgd %0, %dw, %rate ... : tensor<40xf32>
      %2 = stow.all_gather %1, %w {ranks = 4 : i64} : (tensor<40xf32>, tensor<16x10xf32>) -> tensor<16x10xf32>
      return %2 : tensor<16x10xf32>
    // becomes
    func.func @train(%w: tensor<40xf32> {stow.shard_of = tensor<16x10xf32>}, ...) {
      %0 = stow.unshard %w {ranks = 4 : i64} : (tensor<40xf32>) -> tensor<16x10xf32>
      %y = stow.matmul %x, %0 : ...
      ...
      %1 = stow.sgd %w, %dw, %rate ... : tensor<40xf32>
      return %1 : tensor<40xf32>
    ```
  }];
  let options = [
    Option<"percent", "percent", "int64_t", /*default=*/"100",
           "Of the bytes of parameters that may lie in shards so much does, the largest first">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def KeepDataPass : Pass<"stow-keep-data", "::mlir::ModuleOp"> {
  let summary = "Keep all samples on the device, and read each batch out of them";
  let description = [{
    What: in the graphs of a step, every `input` and `target` that is read becomes state for `rows` samples, "<name>.samples", a
    `statistic` that no model is saved of, with the name that it had as `stow.samples_of`. A further `input` with `stow.rows` has the
    numbers of the samples that are the batch, and an op reads them: stow.embedding, or stow.take_along of samples that are one
    number each. The host fills the state once and writes the numbers before each step. What is read is the bytes that a batch from the host has. `@eval` stays as it is.

    Requires: the step form without layouts, all inputs and targets with one row for each sample of the batch.

    Ensures: the step form.

    Example:
    ```mlir
    func.func @train(%x: tensor<8x4xf32> {stow.kind = #stow.kind<input>}, ...) { ... %x ... }
    // becomes, with rows=100
    func.func @train(%x: tensor<100x4xf32> {stow.kind = #stow.kind<statistic>, stow.samples_of = "x", ...}, ...,
                     %rows: tensor<8xi64> {stow.kind = #stow.kind<input>, stow.rows}) {
      %0 = stow.embedding %x, %rows : (tensor<100x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
      ... %0 ...
    }
    ```
  }];
  let options = [
    Option<"rows", "rows", "int64_t", /*default=*/"1", "Samples that there is room for, a batch or more">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_MICROBATCH_PASSES_TD
