// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that reductions and softmax print and parse.
// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<2x4x8x8xf32>, %y: tensor<8x10xf32>) {
  // CHECK: stow.reduce_sum %{{.*}} {axes = array<i64: 0, 2, 3>, keepdims = false} : (tensor<2x4x8x8xf32>) -> tensor<4xf32>
  %0 = stow.reduce_sum %x {axes = array<i64: 0, 2, 3>, keepdims = false} : (tensor<2x4x8x8xf32>) -> tensor<4xf32>
  // CHECK: stow.reduce_mean %{{.*}} {axes = array<i64: 2, 3>, keepdims = true} : (tensor<2x4x8x8xf32>) -> tensor<2x4x1x1xf32>
  %1 = stow.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = true} : (tensor<2x4x8x8xf32>) -> tensor<2x4x1x1xf32>
  // CHECK: stow.reduce_max %{{.*}} {axes = array<i64: 0, 1>, keepdims = false} : (tensor<8x10xf32>) -> tensor<f32>
  %2 = stow.reduce_max %y {axes = array<i64: 0, 1>, keepdims = false} : (tensor<8x10xf32>) -> tensor<f32>
  // CHECK: stow.reduce_sum_squares %{{.*}} {axes = array<i64: 1>, keepdims = true} : (tensor<8x10xf32>) -> tensor<8x1xf32>
  %7 = stow.reduce_sum_squares %y {axes = array<i64: 1>, keepdims = true} : (tensor<8x10xf32>) -> tensor<8x1xf32>
  // CHECK: stow.softmax %{{.*}} {axis = 1 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>
  %3 = stow.softmax %y {axis = 1 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>
  // CHECK: stow.log_softmax %{{.*}} {axis = 0 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>
  %4 = stow.log_softmax %y {axis = 0 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>
  // CHECK: stow.softmax_grad %{{.*}} {axis = 1 : i64} : (tensor<8x10xf32>, tensor<8x10xf32>) -> tensor<8x10xf32>
  %5 = stow.softmax_grad %y, %y {axis = 1 : i64} : (tensor<8x10xf32>, tensor<8x10xf32>) -> tensor<8x10xf32>
  // CHECK: stow.log_softmax_grad %{{.*}} {axis = 1 : i64} : (tensor<8x10xf32>, tensor<8x10xf32>) -> tensor<8x10xf32>
  %6 = stow.log_softmax_grad %y, %y {axis = 1 : i64} : (tensor<8x10xf32>, tensor<8x10xf32>) -> tensor<8x10xf32>
  return
}
