// RUN: stowage-opt %s --stow-reduce-over-ranks="ranks=4" --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARN < %t
// RUN: stowage-opt %s --stow-reduce-over-ranks="ranks=4 mean=false" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=SUM
// RUN: not stowage-opt %s --split-input-file --stow-reduce-over-ranks="ranks=1" 2>&1 | FileCheck %s --check-prefix=ONE

// ONE: ranks: expected 2 or more, found 1
// WARN: 1 batch normalization in training mode: each of the 4 devices normalizes by the statistics of its own 2 samples
// WARN-SAME: --freeze-batch-norm

// Tests that gradient and loss are a quarter of their sums over the ranks.
// CHECK: module attributes {stow.devices = 4 : i64}
// CHECK-LABEL: func.func @train
// CHECK: %[[L:.*]] = stow.reduce_mean
// CHECK-NEXT: %[[LSUM:.*]] = stow.all_reduce %[[L]] {ranks = 4 : i64} : (tensor<f32>) -> tensor<f32>
// CHECK: %[[LOSS:.*]] = stow.mul %[[LSUM]], %{{.*}} : (tensor<f32>, tensor<f32>)
// CHECK: %[[G:.*]] = stow.mul %{{.*}} {stow.phase = #stow.phase<backward>}
// CHECK-NEXT: %[[GSUM:.*]] = stow.all_reduce %[[G]] {ranks = 4 : i64, stow.phase = #stow.phase<backward>}
// CHECK: %[[TOTAL:.*]] = stow.mul %[[GSUM]], %{{.*}} {stow.phase = #stow.phase<backward>}
// CHECK: return %[[LOSS]], %[[TOTAL]]
// SUM: %[[LSUM:.*]] = stow.all_reduce
// SUM: %[[GSUM:.*]] = stow.all_reduce %{{.*}} {ranks = 4 : i64, stow.phase = #stow.phase<backward>}
// SUM-NEXT: return %[[LSUM]], %[[GSUM]]
module {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.name = "w.grad", stow.gradient_of = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = stow.reduce_mean %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %g = stow.mul %x, %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Tests that a divisor is summed as well, and its sum divides.
// CHECK-LABEL: func.func @train
// CHECK: %[[D:.*]] = stow.neg %{{.*}} : (tensor<f32>)
// CHECK-NEXT: %[[N:.*]] = stow.all_reduce %[[D]] {ranks = 4 : i64} : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT: %[[INVERSE:.*]] = stow.reciprocal %[[N]]
// CHECK: stow.mul %{{.*}}, %[[INVERSE]]
// CHECK: %[[GSUM:.*]] = stow.all_reduce %{{.*}} {ranks = 4 : i64, stow.phase = #stow.phase<backward>}
// CHECK-NEXT: stow.mul %[[GSUM]], %[[INVERSE]] {stow.phase = #stow.phase<backward>}
module {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %n: tensor<f32> {stow.name = "n", stow.kind = #stow.kind<target>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<f32> {stow.name = "loss.divisor"}, tensor<4xf32> {stow.name = "w.grad", stow.gradient_of = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %d = stow.neg %n : (tensor<f32>) -> tensor<f32>
    %g = stow.neg %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %d, %g : tensor<f32>, tensor<f32>, tensor<4xf32>
  }
}

// -----

// Tests the warning.
module {
  func.func @train(%x: tensor<2x3x4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %s: tensor<3xf32> {stow.name = "s", stow.kind = #stow.kind<parameter>},
      %b: tensor<3xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
    %l = stow.reduce_mean %y {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<2x3x4x4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
