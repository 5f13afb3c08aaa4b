// RUN: stowage-opt %s | stowage-opt | FileCheck %s

// Tests that the text of batch normalization with max pooling goes in and comes out.

// CHECK-LABEL: func.func @stem
func.func @stem(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %dy: tensor<2x8x4x3xf32>) {
  // CHECK: stow.batch_norm_max_pool %{{.*}}, %{{.*}}, %{{.*}} {dilations = array<i64: 1, 1>, epsilon = 1.000000e-05 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x3xf32>, tensor<2x8x4x3xi8>, tensor<8xf32>, tensor<8xf32>)
  %y, %i, %m, %v = stow.batch_norm_max_pool %x, %s, %b {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x3xf32>, tensor<2x8x4x3xi8>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: stow.batch_norm_max_pool_gradient %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {dilations = array<i64: 1, 1>, epsilon = 1.000000e-05 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x4x3xf32>, tensor<2x8x4x3xi8>) -> (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>)
  %dx, %ds, %db = stow.batch_norm_max_pool_gradient %x, %m, %v, %s, %dy, %i {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x4x3xf32>, tensor<2x8x4x3xi8>) -> (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
