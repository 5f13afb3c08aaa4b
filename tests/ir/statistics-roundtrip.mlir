// RUN: stowage-opt %s | stowage-opt | FileCheck %s

// Tests that the text of a batch normalization's statistics goes in and comes out.

// CHECK-LABEL: func.func @statistics
func.func @statistics(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>) {
  // CHECK: stow.batch_norm_statistics %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<2x8x7x6xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %m, %v, %k = stow.batch_norm_statistics %x, %s {epsilon = 1.0e-5 : f64} : (tensor<2x8x7x6xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
