// RUN: stowage-opt %s --target=cuda:h100 --stow-hoist-scalars --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-hoist-scalars --split-input-file | FileCheck %s --check-prefix=HOST

// Tests that what two updates compute in double of the same numbers is one kernel of one number, whose result both read, and that the host's stay.
// CHECK-LABEL: @updates
// CHECK: %[[S:.*]] = stow.map %arg4 : (tensor<f32>) -> tensor<f32> {
// CHECK-NEXT: ^bb0(%[[R:.*]]: f32):
// CHECK: %[[W:.*]] = arith.extf %[[R]] : f32 to f64
// CHECK: %[[D:.*]] = arith.divf
// CHECK-NEXT: %[[T:.*]] = arith.truncf %[[D]] : f64 to f32
// CHECK-NEXT: stow.yield %[[T]]
// CHECK: stow.map %arg0, %arg1, %[[S]] {updates = array<i64: 0, 0>} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
// CHECK-NOT: f64
// CHECK: stow.map %arg2, %arg3, %[[S]] {updates = array<i64: 0, 1>}
// CHECK-NOT: f64
// CHECK: return
// HOST-LABEL: @updates
// HOST-COUNT-2: = stow.map
func.func @updates(%p: tensor<8xf32>, %g: tensor<8xf32>, %h: tensor<4xf32>, %q: tensor<4xf32>, %rate: tensor<f32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %a = stow.map %p, %g, %rate {updates = array<i64: 0, 0>} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%x: f32, %y: f32, %r: f32):
    %c = arith.constant 3.0 : f64
    %0 = arith.extf %r : f32 to f64
    %1 = arith.divf %0, %c : f64
    %2 = arith.truncf %1 : f64 to f32
    %3 = arith.mulf %2, %y : f32
    %4 = arith.addf %x, %3 : f32
    stow.yield %4 : f32
  }
  %b = stow.map %h, %rate, %q {updates = array<i64: 0, 2>} : (tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%y: f32, %r: f32, %x: f32):
    %c = arith.constant 3.0 : f64
    %0 = arith.extf %r : f32 to f64
    %1 = arith.divf %0, %c : f64
    %2 = arith.truncf %1 : f64 to f32
    %3 = arith.mulf %2, %y : f32
    %4 = arith.subf %x, %3 : f32
    stow.yield %4 : f32
  }
  return %a, %b : tensor<8xf32>, tensor<4xf32>
}

// -----

// Tests what stays: a number that is widened and rounded alone, and doubles of elements.
// CHECK-LABEL: @stay
// CHECK-COUNT-2: = stow.map
// CHECK-NOT: = stow.map
func.func @stay(%p: tensor<8xf32>, %rate: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = stow.map %p, %rate : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%x: f32, %r: f32):
    %0 = arith.extf %r : f32 to f64
    %1 = arith.truncf %0 : f64 to f32
    %2 = arith.mulf %1, %x : f32
    stow.yield %2 : f32
  }
  %b = stow.map %p : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32):
    %0 = arith.extf %x : f32 to f64
    %1 = arith.mulf %0, %0 : f64
    %2 = arith.truncf %1 : f64 to f32
    stow.yield %2 : f32
  }
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
