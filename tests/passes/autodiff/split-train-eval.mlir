// RUN: stowage-opt %s --stow-split-train-eval --split-input-file --verify-diagnostics | FileCheck %s
// RUN: stowage-opt %s --stow-split-train-eval="freeze-batch-norm=true" --split-input-file | FileCheck %s --check-prefix=FROZEN
// RUN: stowage-opt %s --stow-split-train-eval="ranks=2" --split-input-file | FileCheck %s --check-prefix=RANKS

// Tests that training normalizes with batch statistics and returns the running ones: 4*8*8 = 256
// elements per channel, so that the unbiased variance weighs 0.1 * 256 / 255 = 0.10039216.
// CHECK-NOT: @model
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x6x8x8xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}
// CHECK-SAME: %[[MEAN:[a-z0-9]+]]: tensor<6xf32> {stow.kind = #stow.kind<statistic>, stow.name = "mean"}
// CHECK-SAME: %[[VAR:[a-z0-9]+]]: tensor<6xf32> {stow.kind = #stow.kind<statistic>, stow.name = "var"}
// CHECK-SAME: -> (tensor<4x6x8x8xf32> {stow.name = "y"}, tensor<6xf32> {stow.state = "mean"}, tensor<6xf32> {stow.state = "var"})
// CHECK: %[[Y:.*]], %[[BM:.*]], %[[BV:.*]] = stow.batch_norm_training %[[X]]
// CHECK-SAME: epsilon = 1.000000e-05
// CHECK: %[[OLD:.*]] = stow.mul %[[MEAN]], %{{.*}}
// CHECK: dense<1.000000e-01>
// CHECK: %[[NEW:.*]] = stow.mul %[[BM]], %{{.*}}
// CHECK: %[[RM:.*]] = stow.add %[[OLD]], %[[NEW]]
// CHECK: stow.mul %[[VAR]], %{{.*}}
// CHECK: dense<0.100392155>
// CHECK: stow.mul %[[BV]], %{{.*}}
// CHECK: %[[RV:.*]] = stow.add
// CHECK: return %[[Y]], %[[RM]], %[[RV]]
// CHECK-LABEL: func.func @eval
// CHECK: stow.batch_norm %
// CHECK-NOT: stow.state
// On two ranks mean and variance are those of 512 elements, 1 / 512 = 0.001953125, by a sum over the ranks each, and 0.1 * 512 / 511 = 0.10019569.
// RANKS-LABEL: func.func @train
// RANKS: %[[X1:.*]] = stow.reduce_sum %[[X:.*]] {axes = array<i64: 0, 2, 3>
// RANKS: %[[XS:.*]] = stow.all_reduce %[[X1]] {ranks = 2 : i64} : (tensor<6xf32>) -> tensor<6xf32>
// RANKS: dense<0.001953125>
// RANKS: %[[M:.*]] = stow.mul %[[XS]]
// RANKS: %[[MS:.*]] = stow.reshape %[[M]]
// RANKS: %[[C:.*]] = stow.sub %[[X]], %[[MS]]
// RANKS: %[[C2:.*]] = stow.mul %[[C]], %[[C]]
// RANKS: %[[V1:.*]] = stow.reduce_sum %[[C2]]
// RANKS: stow.all_reduce %[[V1]] {ranks = 2 : i64}
// RANKS: dense<0.10019569{{[0-9]*}}>
// RANKS-LABEL: func.func @eval
// RANKS: stow.batch_norm %
// FROZEN-LABEL: func.func @train
// FROZEN: stow.batch_norm %
// FROZEN-NOT: stow.state
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<4x6x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %s: tensor<6xf32> {stow.name = "scale", stow.kind = #stow.kind<parameter>},
      %b: tensor<6xf32> {stow.name = "bias", stow.kind = #stow.kind<parameter>},
      %m: tensor<6xf32> {stow.name = "mean", stow.kind = #stow.kind<statistic>},
      %v: tensor<6xf32> {stow.name = "var", stow.kind = #stow.kind<statistic>})
      -> (tensor<4x6x8x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %y = stow.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
        : (tensor<4x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
        -> tensor<4x6x8x8xf32>
    return %y : tensor<4x6x8x8xf32>
  }
}

// -----

// Tests that one element per channel keeps the biased variance (n / (n - 1) has no value), and that
// a statistic shared by two normalizations follows both, the second on top of the first.
// CHECK-LABEL: func.func @train
// CHECK: %{{.*}}, %[[M0:.*]], %{{.*}} = stow.batch_norm_training
// CHECK: %[[FIRST:.*]] = stow.add
// CHECK: %[[FIRSTV:.*]] = stow.add
// CHECK: %[[Y:.*]], %[[M1:.*]], %{{.*}} = stow.batch_norm_training
// CHECK: stow.mul %[[FIRST]], %{{.*}}
// CHECK: dense<2.500000e-01>
// CHECK: stow.mul %[[M1]]
// CHECK: %[[SECOND:.*]] = stow.add
// CHECK: stow.mul %[[FIRSTV]], %{{.*}}
// CHECK: dense<2.500000e-01>
// CHECK: %[[SECONDV:.*]] = stow.add
// CHECK: return %[[Y]], %[[SECOND]], %[[SECONDV]]
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<1x6xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %s: tensor<6xf32> {stow.name = "scale", stow.kind = #stow.kind<parameter>},
      %m: tensor<6xf32> {stow.name = "mean", stow.kind = #stow.kind<statistic>},
      %v: tensor<6xf32> {stow.name = "var", stow.kind = #stow.kind<statistic>})
      -> (tensor<1x6xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.batch_norm %x, %s, %s, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.25 : f64}
        : (tensor<1x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6xf32>
    %1 = stow.batch_norm %0, %s, %s, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.25 : f64}
        : (tensor<1x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6xf32>
    return %1 : tensor<1x6xf32>
  }
}

// -----

// Tests that dropouts share one seed and have streams of their own, that one of ratio 0 vanishes,
// that evaluation has none, and that max pooling remembers positions in training only.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<i64> {stow.kind = #stow.kind<seed>, stow.name = "seed"}
// CHECK: stow.dropout_training %{{.*}}, %[[SEED]] {ratio = 5.000000e-01 : f64, stream = 0 : i64}
// CHECK-NEXT: stow.dropout_training %{{.*}}, %[[SEED]] {ratio = 2.500000e-01 : f64, stream = 1 : i64}
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = stow.max_pool_training
// CHECK-NEXT: return %[[Y]]
// CHECK-LABEL: func.func @eval
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<1x2x4x4xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}) ->
// CHECK-NEXT: %[[P:.*]] = stow.max_pool %[[X]]
// CHECK-NEXT: return %[[P]]
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<1x2x4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>})
      -> (tensor<1x2x2x2xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.dropout %x {ratio = 0.5 : f64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    %1 = stow.dropout %0 {ratio = 0.0 : f64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    %2 = stow.dropout %1 {ratio = 0.25 : f64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    %y = stow.max_pool %2 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
        : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
    return %y : tensor<1x2x2x2xf32>
  }
}

// -----

// Tests that random numbers are drawn by the seed in training, each with a stream of its own beside
// dropout's, and by seed 0 in evaluation, where a Bernoulli number is its mean.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<i64> {stow.kind = #stow.kind<seed>, stow.name = "seed"}
// CHECK: stow.draw %[[SEED]] {a = 8.000000e-01 : f64, b = 0.000000e+00 : f64, distribution = "bernoulli", stream = 0 : i64}
// CHECK: stow.dropout_training %{{.*}}, %[[SEED]] {ratio = 5.000000e-01 : f64, stream = 1 : i64}
// CHECK: stow.draw %[[SEED]] {a = 0.000000e+00 : f64, b = 1.000000e+00 : f64, distribution = "normal", stream = 2 : i64}
// CHECK-LABEL: func.func @eval
// CHECK-NOT: bernoulli
// CHECK: %[[MEAN:.*]] = stow.constant dense<8.000000e-01> : tensor<4xf32>
// CHECK: stow.mul %{{.*}}, %[[MEAN]]
// CHECK: %[[ZERO:.*]] = stow.constant dense<0> : tensor<i64>
// CHECK: stow.draw %[[ZERO]] {a = 0.000000e+00 : f64, b = 1.000000e+00 : f64, distribution = "normal", stream = 0 : i64}
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>})
      -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %m = stow.random {distribution = "bernoulli", a = 0.8 : f64, b = 0.0 : f64, stream = 0 : i64} : () -> tensor<4xf32>
    %k = stow.mul %x, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = stow.dropout %k {ratio = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    %r = stow.random {distribution = "normal", a = 0.0 : f64, b = 1.0 : f64, stream = 1 : i64} : () -> tensor<4xf32>
    %y = stow.add %d, %r : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// Tests that attention which drops weights gets the seed and a stream of its own in training, none in
// evaluation.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<i64> {stow.kind = #stow.kind<seed>, stow.name = "seed"}
// CHECK: stow.dropout_training %{{.*}}, %[[SEED]] {{{.*}}stream = 0 : i64}
// CHECK: stow.attention %{{.*}} seed %[[SEED]] {ratio = 1.000000e-01 : f64, scale = 1.000000e+00 : f64, stream = 1 : i64
// CHECK-LABEL: func.func @eval
// CHECK-NOT: seed
// CHECK: stow.attention %{{.*}} {ratio = 0.000000e+00 : f64
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<4x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>})
      -> (tensor<4x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %d = stow.dropout %x {ratio = 0.2 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %y, %lse = stow.attention %d, %d, %d {ratio = 0.1 : f64, scale = 1.0 : f64, stream = 0 : i64, zero_rows = false}
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x2xf32>)
    return %y : tensor<4x8xf32>
  }
}

// -----

// Tests that a frozen normalization keeps its running statistics in training beside one that does not.
// CHECK-LABEL: func.func @train
// CHECK-SAME: -> (tensor<4x6xf32> {stow.name = "y"}, tensor<6xf32> {stow.state = "n"}, tensor<6xf32> {stow.state = "w"})
// CHECK: %[[FIXED:.*]] = stow.batch_norm %
// CHECK-NOT: frozen
// CHECK: stow.batch_norm_training %[[FIXED]]
// CHECK-LABEL: func.func @eval
// CHECK-NOT: frozen
// CHECK: return
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<4x6xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %s: tensor<6xf32> {stow.name = "scale", stow.kind = #stow.kind<parameter>},
      %m: tensor<6xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>},
      %v: tensor<6xf32> {stow.name = "v", stow.kind = #stow.kind<statistic>},
      %n: tensor<6xf32> {stow.name = "n", stow.kind = #stow.kind<statistic>},
      %w: tensor<6xf32> {stow.name = "w", stow.kind = #stow.kind<statistic>})
      -> (tensor<4x6xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.batch_norm %x, %s, %s, %m, %v {epsilon = 1.0e-5 : f64, frozen, momentum = 0.1 : f64}
        : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %1 = stow.batch_norm %0, %s, %s, %n, %w {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
        : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}

// -----

// Tests that the seed takes a name that the model has not.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<input>, stow.name = "seed"}
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<i64> {stow.kind = #stow.kind<seed>, stow.name = "seed.2"}
// CHECK: stow.dropout_training %[[X]], %[[SEED]]
func.func @model(%x: tensor<4xf32> {stow.name = "seed", stow.kind = #stow.kind<input>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
  %0 = stow.dropout %x {ratio = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Tests that training updates a statistic as the model says and computes with the new value where evaluation, which writes none, has the
// stored one.
// FROZEN: tensor<4xf32> {stow.state = "m"}
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}
// CHECK-SAME: -> (tensor<4xf32> {stow.name = "y"}, tensor<4xf32> {stow.state = "m"})
// CHECK: %[[NEW:.*]] = stow.add %{{.*}}, %[[X]]
// CHECK: %[[Y:.*]] = stow.sub %[[X]], %[[NEW]]
// CHECK: return %[[Y]], %[[NEW]]
// CHECK-LABEL: func.func @eval
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<statistic>, stow.name = "m"}) -> (tensor<4xf32> {stow.name = "y"})
// CHECK: %[[Y:.*]] = stow.sub %{{.*}}, %[[M]]
// CHECK: return %[[Y]] : tensor<4xf32>
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>})
      -> (tensor<4xf32> {stow.name = "y"}, tensor<4xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<model>} {
    %new = stow.add %m, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %read = stow.in_training %new, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %y = stow.sub %x, %read : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y, %new : tensor<4xf32>, tensor<4xf32>
  }
}
