// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that resampling and rearranging print and parse, several axes and none included.
// CHECK-LABEL: func.func @resample
func.func @resample(%x: tensor<1x8x2x3xf32>) {
  // CHECK: stow.resample %{{.*}} {axes = array<i64: 2, 3>, extents = array<i64: 1, 2>, sources = array<i64: 0, 1, 2>, starts = array<i64: 0, 2, 2, 3, 3>, weights = array<f64: 5.000000e-01, 5.000000e-01, 1.000000e+00>} : (tensor<1x8x2x3xf32>) -> tensor<1x8x1x2xf32>
  %0 = stow.resample %x {axes = array<i64: 2, 3>, extents = array<i64: 1, 2>, starts = array<i64: 0, 2, 2, 3, 3>, sources = array<i64: 0, 1, 2>, weights = array<f64: 0.5, 0.5, 1.0>} : (tensor<1x8x2x3xf32>) -> tensor<1x8x1x2xf32>
  // CHECK: stow.resample %{{.*}} {axes = array<i64>, extents = array<i64>, sources = array<i64>, starts = array<i64>, weights = array<f64>} : (tensor<1x8x2x3xf32>) -> tensor<1x8x2x3xf32>
  %1 = stow.resample %x {axes = array<i64>, extents = array<i64>, starts = array<i64>, sources = array<i64>, weights = array<f64>} : (tensor<1x8x2x3xf32>) -> tensor<1x8x2x3xf32>
  // CHECK: stow.rearrange %{{.*}} {factors = array<i64: 1, 2, 2, 2, 2, 3>, permutation = array<i64: 0, 3, 4, 1, 5, 2>} : (tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32>
  %2 = stow.rearrange %x {factors = array<i64: 1, 2, 2, 2, 2, 3>, permutation = array<i64: 0, 3, 4, 1, 5, 2>} : (tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32>
  return
}
