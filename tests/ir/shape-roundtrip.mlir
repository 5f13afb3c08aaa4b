// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that views and data movement print and parse, integers included.
// CHECK-LABEL: func.func @shape
func.func @shape(%x: tensor<2x6xf32>, %t: tensor<2x6xi64>, %n: tensor<1x2x3x4xf32>) {
  // CHECK: stow.constant dense<[1, 2]> : tensor<2xi64>
  %c = stow.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK: stow.constant {stow.phase = #stow.phase<backward>} dense<1.000000e+00> : tensor<f32>
  %d = stow.constant {stow.phase = #stow.phase<backward>} dense<1.0> : tensor<f32>
  // CHECK: stow.reshape %{{.*}} : (tensor<2x6xi64>) -> tensor<12xi64>
  %0 = stow.reshape %t : (tensor<2x6xi64>) -> tensor<12xi64>
  // CHECK: stow.transpose %{{.*}} {permutation = array<i64: 1, 0>} : (tensor<2x6xf32>) -> tensor<6x2xf32>
  %1 = stow.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x6xf32>) -> tensor<6x2xf32>
  // CHECK: stow.reorder %{{.*}} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>
  %2 = stow.reorder %n : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>
  // CHECK: stow.concat %{{.*}}, %{{.*}}, %{{.*}} {axis = 0 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
  %3 = stow.concat %x, %x, %x {axis = 0 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
  // CHECK: stow.slice %{{.*}} {sizes = array<i64: 1, 3>, starts = array<i64: 1, 2>} : (tensor<2x6xf32>) -> tensor<1x3xf32>
  %4 = stow.slice %x {starts = array<i64: 1, 2>, sizes = array<i64: 1, 3>} : (tensor<2x6xf32>) -> tensor<1x3xf32>
  // CHECK: stow.pad %{{.*}} {after = array<i64: 1, 0>, before = array<i64: 0, 2>, value = 0.000000e+00 : f64} : (tensor<2x6xf32>) -> tensor<3x8xf32>
  %5 = stow.pad %x {before = array<i64: 0, 2>, after = array<i64: 1, 0>, value = 0.0 : f64} : (tensor<2x6xf32>) -> tensor<3x8xf32>
  // CHECK: stow.broadcast_to %{{.*}} : (tensor<2x6xf32>) -> tensor<3x2x6xf32>
  %6 = stow.broadcast_to %x : (tensor<2x6xf32>) -> tensor<3x2x6xf32>
  return
}
