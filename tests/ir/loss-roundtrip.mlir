// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that the pieces of losses over classes print and parse, with i64 and i32 targets.
// CHECK-LABEL: func.func @loss
func.func @loss(%x: tensor<8x10xf32>, %t: tensor<8xi64>, %s: tensor<8xi32>, %r: tensor<8xf32>, %w: tensor<10xf32>) {
  // CHECK: stow.cross_entropy_rows %{{.*}} {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %0:2 = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: stow.cross_entropy_rows %{{.*}} {ignore_index = 0 : i64} : (tensor<8x10xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %1:2 = stow.cross_entropy_rows %x, %s {ignore_index = 0 : i64} : (tensor<8x10xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: stow.cross_entropy_rows_grad %{{.*}} {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x10xf32>
  %2 = stow.cross_entropy_rows_grad %x, %t, %r, %r {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x10xf32>
  // CHECK: stow.cross_entropy_rows %{{.*}} {ignore_index = 0 : i64, label_smoothing = 1.000000e-01 : f64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<10xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %4:2 = stow.cross_entropy_rows %x, %t, %w {ignore_index = 0 : i64, label_smoothing = 0.1 : f64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<10xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: stow.cross_entropy_rows_grad %{{.*}} {ignore_index = 0 : i64, label_smoothing = 1.000000e-01 : f64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>, tensor<10xf32>) -> tensor<8x10xf32>
  %5 = stow.cross_entropy_rows_grad %x, %t, %r, %r, %w {ignore_index = 0 : i64, label_smoothing = 0.1 : f64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>, tensor<10xf32>) -> tensor<8x10xf32>
  // CHECK: stow.nll_rows %{{.*}} {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>) -> tensor<8xf32>
  %6 = stow.nll_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>) -> tensor<8xf32>
  // CHECK: stow.nll_rows_grad %{{.*}} {classes = 10 : i64, ignore_index = -100 : i64} : (tensor<8xi64>, tensor<8xf32>) -> tensor<8x10xf32>
  %7 = stow.nll_rows_grad %t, %r {classes = 10 : i64, ignore_index = -100 : i64} : (tensor<8xi64>, tensor<8xf32>) -> tensor<8x10xf32>
  // CHECK: stow.class_weights %{{.*}} {ignore_index = -100 : i64} : (tensor<8xi64>, tensor<10xf32>) -> tensor<8xf32>
  %8 = stow.class_weights %t, %w {ignore_index = -100 : i64} : (tensor<8xi64>, tensor<10xf32>) -> tensor<8xf32>
  // CHECK: stow.count_valid %{{.*}} {element_type = f64, ignore_index = -100 : i64} : (tensor<8xi64>) -> tensor<f64>
  %3 = stow.count_valid %t {element_type = f64, ignore_index = -100 : i64} : (tensor<8xi64>) -> tensor<f64>
  return
}
