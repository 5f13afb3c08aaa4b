// RUN: stowage-opt %s --stow-separate-divisor --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-separate-divisor=terms=32 --split-input-file | FileCheck %s --check-prefix=TERMS
// RUN: not stowage-opt %s --stow-autodiff --stow-separate-divisor 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: expects

// Tests that the mean over the classes that count becomes a dividend and a divisor, both scaled by 1/8, or as is said.
// TERMS: module attributes {stow.divisor_terms = 32 : i64}
// TERMS: stow.constant dense<3.125000e-02>
// TERMS: stow.constant dense<3.125000e-02>
// CHECK-LABEL: func.func @train
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<f32> {stow.name = "loss.divisor"})
// CHECK: %[[SUM:.*]] = stow.reduce_sum
// CHECK: %[[COUNT:.*]] = stow.count_valid
// CHECK-NOT: stow.div
// CHECK: stow.constant dense<1.250000e-01>
// CHECK: %[[A:.*]] = stow.mul %[[SUM]], %[[EIGHTH:.*]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[B:.*]] = stow.mul %[[COUNT]], %{{.*}} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: return %[[A]], %[[B]]
module {
  func.func @train(%x: tensor<8xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %t: tensor<8xi64> {stow.name = "t", stow.kind = #stow.kind<target>},
      %w: tensor<8xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.mul %x, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %s = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
    %c = stow.count_valid %t {element_type = f32, ignore_index = -100 : i64} : (tensor<8xi64>) -> tensor<f32>
    %l = stow.div %s, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Tests that a quotient whose divisor depends on a parameter stays what it is.
// CHECK-LABEL: func.func @train
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"})
// CHECK: %[[L:.*]] = stow.div
// CHECK: return %[[L]] : tensor<f32>
module {
  func.func @train(%x: tensor<f32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<f32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %d = stow.add %w, %w : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %l = stow.div %x, %d : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Tests that a mean has no divisor of its own.
// CHECK-LABEL: func.func @train
// CHECK: %[[L:.*]] = stow.reduce_mean
// CHECK: return %[[L]] : tensor<f32>
module {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %l = stow.reduce_mean %x {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
