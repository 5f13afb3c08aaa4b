// RUN: stowage-opt %s --stow-join-masks --split-input-file | FileCheck %s

// Tests that the mask becomes the last result of the kernel that alone reads the value beside it.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<8xf32>, %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: %[[Y:.*]]:2 = stow.map %[[B]], %[[X]] : (tensor<8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi1>) {
// CHECK-NEXT: ^bb0(%[[P:.*]]: f32, %[[Q:.*]]: f32):
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[P]], %[[Q]]
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT: %[[BIT:.*]] = arith.cmpf ogt, %[[Q]], %[[ZERO]]
// CHECK-NEXT: stow.yield %[[SUM]], %[[BIT]] : f32, i1
// CHECK: stow.map %[[Y]]#1, %[[Y]]#0 {stow.phase = #stow.phase<backward>}
func.func @train(%b: tensor<8xf32>, %x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {stow.role = #stow.role<train>} {
  %m = stow.map %x : (tensor<4x8xf32>) -> tensor<4x8xi1> {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %1 = arith.cmpf ogt, %0, %zero : f32
    stow.yield %1 : i1
  }
  %y = stow.map %b, %x : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    stow.yield %2 : f32
  }
  %d = stow.map %m, %y {stow.phase = #stow.phase<backward>} : (tensor<4x8xi1>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%0: i1, %1: f32):
    %zero = arith.constant 0.0 : f32
    %2 = arith.select %0, %1, %zero : f32
    stow.yield %2 : f32
  }
  return %d : tensor<4x8xf32>
}

// -----

// Tests what stays: masks of values that others read too (%x), or a kernel of another shape (%v).
// CHECK-LABEL: func.func @train
// CHECK: stow.map %{{.*}} : (tensor<4x4xf32>) -> tensor<4x4xi1>
// CHECK: stow.map %{{.*}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: stow.map %{{.*}} : (tensor<4xf32>) -> tensor<4xi1>
// CHECK: stow.map %{{.*}} : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
func.func @train(%x: tensor<4x4xf32>, %v: tensor<4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xi1>, tensor<4xi1>) attributes {stow.role = #stow.role<train>} {
  %m = stow.map %x : (tensor<4x4xf32>) -> tensor<4x4xi1> {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %1 = arith.cmpf ogt, %0, %zero : f32
    stow.yield %1 : i1
  }
  %y = stow.map %x : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%0: f32):
    %1 = arith.negf %0 : f32
    stow.yield %1 : f32
  }
  %p = stow.matmul %y, %x {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = stow.map %v : (tensor<4xf32>) -> tensor<4xi1> {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %1 = arith.cmpf ogt, %0, %zero : f32
    stow.yield %1 : i1
  }
  %z = stow.map %v, %p : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    stow.yield %2 : f32
  }
  return %y, %z, %m, %n : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xi1>, tensor<4xi1>
}

// -----

// Tests that a mask stays which the forward reads before the other kernel.
// CHECK-LABEL: func.func @train
// CHECK: %[[MASK:.*]] = stow.map %{{.*}} : (tensor<4xi64>) -> tensor<4xi1>
// CHECK: %[[TAKEN:.*]] = stow.map %[[MASK]], %{{.*}} : (tensor<4xi1>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: stow.map %{{.*}}, %[[TAKEN]] : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32>
func.func @train(%x: tensor<4xi64>, %v: tensor<4xf32>) -> tensor<4xf32> attributes {stow.role = #stow.role<train>} {
  %m = stow.map %x : (tensor<4xi64>) -> tensor<4xi1> {
  ^bb0(%0: i64):
    %zero = arith.constant 0 : i64
    %1 = arith.cmpi sgt, %0, %zero : i64
    stow.yield %1 : i1
  }
  %t = stow.map %m, %v : (tensor<4xi1>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%0: i1, %1: f32):
    %2 = arith.negf %1 : f32
    %3 = arith.select %0, %1, %2 : f32
    stow.yield %3 : f32
  }
  %y = stow.map %x, %t : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%0: i64, %1: f32):
    %2 = arith.sitofp %0 : i64 to f32
    %3 = arith.addf %1, %2 : f32
    stow.yield %3 : f32
  }
  return %y : tensor<4xf32>
}

// -----

// Tests that two masks of one value, which nothing else reads, become one kernel.
// CHECK-LABEL: func.func @train
// CHECK: stow.map %{{.*}} : (tensor<4xi64>) -> (tensor<4xi1>, tensor<4xi1>)
// CHECK-NOT: -> tensor<4xi1>
func.func @train(%x: tensor<4xi64>) -> (tensor<4xi1>, tensor<4xi1>) attributes {stow.role = #stow.role<train>} {
  %m = stow.map %x : (tensor<4xi64>) -> tensor<4xi1> {
  ^bb0(%0: i64):
    %one = arith.constant 1 : i64
    %1 = arith.cmpi eq, %0, %one : i64
    stow.yield %1 : i1
  }
  %n = stow.map %x : (tensor<4xi64>) -> tensor<4xi1> {
  ^bb0(%0: i64):
    %two = arith.constant 2 : i64
    %1 = arith.cmpi eq, %0, %two : i64
    stow.yield %1 : i1
  }
  return %m, %n : tensor<4xi1>, tensor<4xi1>
}
