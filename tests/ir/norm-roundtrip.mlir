// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that the normalization ops print and parse, rank 2 included.
// CHECK-LABEL: func.func @norm
func.func @norm(%x: tensor<2x4x8x8xf32>, %v: tensor<4xf32>, %r: tensor<8x4xf32>, %n: tensor<2x4x1x1xf32>) {
  // CHECK: stow.batch_norm %{{.*}} {epsilon = 1.000000e-05 : f64, momentum = 1.000000e-01 : f64} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
  %0 = stow.batch_norm %x, %v, %v, %v, %v {epsilon = 1.000000e-05 : f64, momentum = 1.000000e-01 : f64} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
  // CHECK: stow.batch_norm_training %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %1:3 = stow.batch_norm_training %x, %v, %v {epsilon = 1.000000e-05 : f64} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.batch_norm_training %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %2:3 = stow.batch_norm_training %r, %v, %v {epsilon = 1.000000e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.batch_norm_grad %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x4x8x8xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %3:3 = stow.batch_norm_grad %x, %v, %v, %v, %x {epsilon = 1.000000e-05 : f64} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x4x8x8xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.channel_window_sum %{{.*}} {after = 2 : i64, before = 1 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %4 = stow.channel_window_sum %x {after = 2 : i64, before = 1 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  // CHECK: stow.layer_norm %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  %5:3 = stow.layer_norm %r, %v, %v {epsilon = 1.000000e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: stow.layer_norm %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  %6:3 = stow.layer_norm %r, %v {epsilon = 1.000000e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: stow.layer_norm_grad %{{.*}} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %7 = stow.layer_norm_grad %r, %r, %5#1, %5#2, %v : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  // CHECK: stow.layer_norm_scale_grad %{{.*}} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %8:2 = stow.layer_norm_scale_grad %r, %r, %5#1, %5#2 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.channel_moments %{{.*}} : (tensor<2x4x8x8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %9:2 = stow.channel_moments %x : (tensor<2x4x8x8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.batch_norm_scale_grad %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %10:2 = stow.batch_norm_scale_grad %x, %x, %9#0, %9#1 {epsilon = 1.000000e-05 : f64} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.plane_moments %{{.*}} : (tensor<2x4x8x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %11:2 = stow.plane_moments %x : (tensor<2x4x8x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  // CHECK: stow.plane_normalize %{{.*}} : (tensor<2x4x8x8xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %12 = stow.plane_normalize %x, %n, %n, %n : (tensor<2x4x8x8xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  // CHECK: stow.plane_products %{{.*}} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %13:2 = stow.plane_products %x, %x, %11#0 : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  // CHECK: stow.rms_norm %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  %14:2 = stow.rms_norm %r, %v {epsilon = 1.000000e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  // CHECK: stow.rms_norm_grad %{{.*}} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %15 = stow.rms_norm_grad %r, %r, %14#1, %v : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  // CHECK: stow.rms_norm_scale_grad %{{.*}} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<4xf32>
  %16 = stow.rms_norm_scale_grad %r, %r, %14#1 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return
}
