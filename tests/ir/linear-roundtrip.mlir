// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that convolution and products print and parse, biases included.
// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<6xf32>, %y: tensor<2x6x4x4xf32>, %m: tensor<3x2x5xf32>, %n: tensor<4x5xf32>, %c: tensor<4xf32>, %v: tensor<2x4x3x8x8xf32>, %k: tensor<6x4x3x3x3xf32>) {
  // CHECK: stow.conv2d %{{.*}} {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  %0 = stow.conv2d %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  // CHECK: stow.conv2d %{{.*}} {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<2x6x4x4xf32>
  %1 = stow.conv2d %x, %w, %b {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<2x6x4x4xf32>
  // CHECK: stow.conv2d_grad_input %{{.*}} {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x6x4x4xf32>, tensor<6x4x3x3xf32>) -> tensor<2x4x8x8xf32>
  %2 = stow.conv2d_grad_input %y, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x6x4x4xf32>, tensor<6x4x3x3xf32>) -> tensor<2x4x8x8xf32>
  // CHECK: stow.conv2d_grad_weight %{{.*}} {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<2x6x4x4xf32>) -> tensor<6x4x3x3xf32>
  %3 = stow.conv2d_grad_weight %x, %y {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<2x6x4x4xf32>) -> tensor<6x4x3x3xf32>
  // CHECK: stow.matmul %{{.*}} {transpose_a = false, transpose_b = true} : (tensor<3x2x5xf32>, tensor<4x5xf32>) -> tensor<3x2x4xf32>
  %4 = stow.matmul %m, %n {transpose_a = false, transpose_b = true} : (tensor<3x2x5xf32>, tensor<4x5xf32>) -> tensor<3x2x4xf32>
  // CHECK: stow.matmul %{{.*}} {transpose_a = false, transpose_b = true} : (tensor<3x2x5xf32>, tensor<4x5xf32>, tensor<4xf32>) -> tensor<3x2x4xf32>
  %5 = stow.matmul %m, %n, %c {transpose_a = false, transpose_b = true} : (tensor<3x2x5xf32>, tensor<4x5xf32>, tensor<4xf32>) -> tensor<3x2x4xf32>
  // CHECK: stow.conv2d %{{.*}} {dilations = array<i64: 1, 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1, 1, 1>, strides = array<i64: 1, 2, 2>} : (tensor<2x4x3x8x8xf32>, tensor<6x4x3x3x3xf32>) -> tensor<2x6x3x4x4xf32>
  %6 = stow.conv2d %v, %k {dilations = array<i64: 1, 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1, 1, 1>, strides = array<i64: 1, 2, 2>} : (tensor<2x4x3x8x8xf32>, tensor<6x4x3x3x3xf32>) -> tensor<2x6x3x4x4xf32>
  return
}
