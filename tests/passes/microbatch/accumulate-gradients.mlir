// RUN: stowage-opt %s --stow-accumulate-gradients="batches=4" --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARN < %t
// RUN: stowage-opt %s --stow-accumulate-gradients="batches=4 mean=false keep-sums" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=KEEP
// RUN: stowage-opt %s --stow-accumulate-gradients="batches=4" --split-input-file --mlir-print-debuginfo 2>/dev/null | FileCheck %s --check-prefix=WHERE
// RUN: not stowage-opt %s --split-input-file --stow-accumulate-gradients="batches=1" 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: stowage-opt %s --stow-accumulate-gradients="batches=4" --stow-attach-optimizer --split-input-file 2>/dev/null | FileCheck %s --check-prefix=STEP
// RUN: stowage-opt %s --stow-accumulate-gradients="batches=4 ranks=2" --split-input-file 2>%t.ranks | FileCheck %s --check-prefix=RANKS
// RUN: FileCheck %s --check-prefix=RANKS-WARN < %t.ranks
// RUN: not stowage-opt %s --split-input-file --stow-accumulate-gradients="ranks=0" 2>&1 | FileCheck %s --check-prefix=NONE

// NONE: ranks: expected 1 or more, found 0
// RANKS-WARN: each of the 8 batches of a step is normalized by the statistics of its own 2 samples, not of the step's 16, and running statistics follow every batch of rank 0
// ONE: batches: expected 2 or more, found 1
// WARN: 1 batch normalization in training mode: each of the 4 batches of a step is normalized by the statistics of its own 2 samples, not of the step's 8
// WARN-SAME: --freeze-batch-norm

// Tests that the last batch's gradient and loss are a quarter of the sums with its own added, that all
// others add theirs, and that optimizer and role come to the last. A gradient's sum has its parameter's location.
// WHERE: stow.name = "w.gradient_sum", stow.unsaved} loc("w of module m")
// CHECK: module attributes {stow.batches = 4 : i64}
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<input>
// CHECK-SAME: %[[LS:[a-z0-9]+]]: tensor<f32> {stow.init = #stow.init<"constant", 0.000000e+00, 0.000000e+00>, stow.kind = #stow.kind<accumulator>, stow.name = "loss.sum", stow.unsaved}
// CHECK-SAME: %[[WS:[a-z0-9]+]]: tensor<4xf32> {{.*}}stow.kind = #stow.kind<accumulator>, stow.name = "w.gradient_sum", stow.unsaved}
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.gradient_of = "w", stow.name = "w.grad"})
// CHECK: %[[L:.*]] = stow.reduce_mean
// CHECK-NEXT: %[[LSUM:.*]] = stow.add %[[LS]], %[[L]]
// CHECK: %[[LOSS:.*]] = stow.mul %[[LSUM]], %{{.*}} : (tensor<f32>, tensor<f32>)
// CHECK: %[[G:.*]] = stow.mul %[[X]], %{{.*}} {stow.phase = #stow.phase<backward>}
// CHECK-NEXT: %[[GSUM:.*]] = stow.add %[[WS]], %[[G]] {stow.phase = #stow.phase<backward>}
// CHECK: %[[TOTAL:.*]] = stow.mul %[[GSUM]], %{{.*}} {stow.phase = #stow.phase<backward>}
// CHECK: return %[[LOSS]], %[[TOTAL]]
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<f32> {stow.state = "loss.sum"}, tensor<4xf32> {stow.state = "w.gradient_sum"}) attributes {stow.role = #stow.role<accumulate>}
// CHECK: %[[L1:.*]] = stow.reduce_mean
// CHECK-NEXT: %[[LSUM1:.*]] = stow.add %{{.*}}, %[[L1]]
// CHECK: %[[GSUM1:.*]] = stow.add %{{.*}} {stow.phase = #stow.phase<backward>}
// CHECK: return %[[L1]], %[[LSUM1]], %[[GSUM1]]
// On two devices what is added up is summed over them in both graphs, and the mean is that of eight batches.
// RANKS: module attributes {stow.batches = 4 : i64, stow.devices = 2 : i64}
// RANKS-LABEL: func.func @train
// RANKS: %[[EIGHTH:.*]] = stow.constant {{.*}}1.250000e-01
// RANKS: %[[G:.*]] = stow.add %{{.*}} {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>)
// RANKS-NEXT: %[[SUM:.*]] = stow.all_reduce %[[G]] {ranks = 2 : i64, stow.phase = #stow.phase<backward>}
// RANKS: stow.mul %[[SUM]], %{{.*}} {stow.phase = #stow.phase<backward>}
// RANKS-LABEL: func.func @accumulate
// RANKS: %[[L:.*]] = stow.add
// RANKS-NEXT: %[[LSUM:.*]] = stow.all_reduce %[[L]] {ranks = 2 : i64}
// RANKS: %[[GSUM:.*]] = stow.all_reduce %{{.*}} {ranks = 2 : i64, stow.phase = #stow.phase<backward>}
// RANKS: return %[[LSUM]], %[[LSUM]], %[[GSUM]]
// KEEP-LABEL: func.func @train
// KEEP-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.state = "w.gradient_sum"}, tensor<4xf32> {stow.gradient_of = "w", stow.name = "w.grad"})
// KEEP: %[[LSUM:.*]] = stow.add
// KEEP: %[[GSUM:.*]] = stow.add %{{.*}} {stow.phase = #stow.phase<backward>}
// KEEP-NEXT: return %[[LSUM]], %[[GSUM]], %[[GSUM]]
// STEP: module attributes {stow.batches = 4 : i64, stow.form = "step"}
// STEP-LABEL: func.func @commit
// STEP-SAME: tensor<4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<commit>}
// STEP: stow.sgd
// STEP-LABEL: func.func @accumulate
// STEP-NOT: stow.sgd
module {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>} loc("w of module m"))
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.name = "w.grad", stow.gradient_of = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = stow.reduce_mean %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %q = stow.constant {stow.phase = #stow.phase<backward>} dense<0.25> : tensor<f32>
    %g = stow.mul %x, %q {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// STEP-LABEL: func.func @commit
// Tests that sums are divided by the sum of the divisors, which the loss waits for too; running
// statistics follow every batch.
// CHECK-LABEL: func.func @train
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<2xf32> {stow.state = "m"}, tensor<2xf32> {stow.gradient_of = "s", stow.name = "s.grad"})
// CHECK: %[[LSUM:.*]] = stow.add %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>)
// CHECK: %[[COUNT:.*]] = stow.count_valid
// CHECK-NEXT: %[[DIVISOR:.*]] = stow.add %{{.*}}, %[[COUNT]]
// CHECK-NEXT: %[[INVERSE:.*]] = stow.reciprocal %[[DIVISOR]]
// CHECK-NEXT: %[[LOSS:.*]] = stow.mul %[[LSUM]], %[[INVERSE]]
// CHECK-NEXT: stow.add %{{.*}} {stow.phase = #stow.phase<backward>}
// CHECK-NEXT: %[[GSUM:.*]] = stow.add %{{.*}} {stow.phase = #stow.phase<backward>}
// CHECK-NEXT: %[[TOTAL:.*]] = stow.mul %[[GSUM]], %[[INVERSE]] {stow.phase = #stow.phase<backward>}
// CHECK: return %[[LOSS]], %{{.*}}, %[[TOTAL]]
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<2xf32> {stow.state = "m"}, tensor<f32> {stow.state = "loss.sum"}, tensor<f32> {stow.state = "loss.divisor.sum"}, tensor<2xf32> {stow.state = "s.gradient_sum"})
module {
  func.func @train(%x: tensor<2x2xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %t: tensor<2xi64> {stow.name = "t", stow.kind = #stow.kind<target>},
      %s: tensor<2xf32> {stow.name = "s", stow.kind = #stow.kind<parameter>},
      %m: tensor<2xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<2xf32> {stow.state = "m"}, tensor<f32> {stow.name = "loss.divisor"},
          tensor<2xf32> {stow.name = "s.grad", stow.gradient_of = "s"}) attributes {stow.role = #stow.role<train>} {
    %y, %mean, %variance = stow.batch_norm_training %x, %s, %s {epsilon = 1.0e-5 : f64}
        : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
    %l = stow.reduce_sum %y {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x2xf32>) -> tensor<f32>
    %c = stow.count_valid %t {element_type = f32, ignore_index = -100 : i64} : (tensor<2xi64>) -> tensor<f32>
    %g = stow.add %mean, %variance {stow.phase = #stow.phase<backward>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %l, %mean, %c, %g : tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>
  }
}

// -----

// Tests that sums take names that the model has not.
// CHECK-LABEL: func.func @train
// CHECK-SAME: stow.kind = #stow.kind<accumulator>, stow.name = "w.gradient_sum.2"
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: {stow.state = "w.gradient_sum.2"}, tensor<4xf32> {stow.state = "w.gradient_sum.gradient_sum"})
module {
  func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %s: tensor<4xf32> {stow.name = "w.gradient_sum", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.name = "w.grad", stow.gradient_of = "w"},
          tensor<4xf32> {stow.name = "w.gradient_sum.grad", stow.gradient_of = "w.gradient_sum"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.mul %w, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %dw = stow.exp %s {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %ds = stow.exp %w {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %dw, %ds : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
}
