// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that all_reduce prints and parses.
// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<16x10xf32>) {
  // CHECK: stow.all_reduce %{{.*}} {ranks = 4 : i64} : (tensor<16x10xf32>) -> tensor<16x10xf32>
  %y = stow.all_reduce %x {ranks = 4 : i64} : (tensor<16x10xf32>) -> tensor<16x10xf32>
  return
}
