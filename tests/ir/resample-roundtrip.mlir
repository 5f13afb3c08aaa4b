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

// Tests the ops of sampling, in one to three dimensions.
// CHECK-LABEL: func.func @grid_sample
func.func @grid_sample(%x: tensor<2x3x4x5xf32>, %g: tensor<2x6x7x2xf32>, %line: tensor<2x3x4xf32>, %h: tensor<2x6x1xf32>, %volume: tensor<1x3x4x5x6xf32>, %i: tensor<1x7x8x9x3xf32>) {
  // CHECK: stow.grid_sample %{{.*}}, %{{.*}} {align_corners = false, mode = "linear", padding = "zeros"} : (tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32>
  %0 = stow.grid_sample %x, %g {mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32>
  // CHECK: stow.grid_sample_grad_input %{{.*}}, %{{.*}} {align_corners = true, extents = array<i64: 4, 5>, mode = "nearest", padding = "border"} : (tensor<2x3x6x7xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x4x5xf32>
  %1 = stow.grid_sample_grad_input %0, %g {extents = array<i64: 4, 5>, mode = "nearest", padding = "border", align_corners = true} : (tensor<2x3x6x7xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x4x5xf32>
  // CHECK: stow.grid_sample_grad_grid %{{.*}}, %{{.*}}, %{{.*}} {align_corners = true, padding = "reflection"} : (tensor<2x3x6x7xf32>, tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x6x7x2xf32>
  %2 = stow.grid_sample_grad_grid %0, %x, %g {padding = "reflection", align_corners = true} : (tensor<2x3x6x7xf32>, tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x6x7x2xf32>
  // CHECK: (tensor<2x3x4xf32>, tensor<2x6x1xf32>) -> tensor<2x3x6xf32>
  %3 = stow.grid_sample %line, %h {mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3x4xf32>, tensor<2x6x1xf32>) -> tensor<2x3x6xf32>
  // CHECK: (tensor<1x3x4x5x6xf32>, tensor<1x7x8x9x3xf32>) -> tensor<1x3x7x8x9xf32>
  %4 = stow.grid_sample %volume, %i {mode = "linear", padding = "zeros", align_corners = false} : (tensor<1x3x4x5x6xf32>, tensor<1x7x8x9x3xf32>) -> tensor<1x3x7x8x9xf32>
  return
}
