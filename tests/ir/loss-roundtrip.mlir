// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that the pieces of cross-entropy print and parse, with i64 and i32 targets.
// CHECK-LABEL: func.func @loss
func.func @loss(%x: tensor<8x10xf32>, %t: tensor<8xi64>, %s: tensor<8xi32>, %r: tensor<8xf32>) {
  // CHECK: stow.cross_entropy_rows %{{.*}} {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %0:2 = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: stow.cross_entropy_rows %{{.*}} {ignore_index = 0 : i64} : (tensor<8x10xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %1:2 = stow.cross_entropy_rows %x, %s {ignore_index = 0 : i64} : (tensor<8x10xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: stow.cross_entropy_rows_grad %{{.*}} {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x10xf32>
  %2 = stow.cross_entropy_rows_grad %x, %t, %r, %r {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x10xf32>
  // CHECK: stow.count_valid %{{.*}} {element_type = f64, ignore_index = -100 : i64} : (tensor<8xi64>) -> tensor<f64>
  %3 = stow.count_valid %t {element_type = f64, ignore_index = -100 : i64} : (tensor<8xi64>) -> tensor<f64>
  return
}
