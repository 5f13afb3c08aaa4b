// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that arithmetic on bits prints and parses, with broadcasting and both widths.
// CHECK-LABEL: func.func @bits
func.func @bits(%x: tensor<4x8xi64>, %row: tensor<8xi64>, %n: tensor<4x8xi32>, %by: tensor<i32>) {
  // CHECK: stow.bitwise %{{.*}}, %{{.*}} {kind = "and"} : (tensor<4x8xi64>, tensor<8xi64>) -> tensor<4x8xi64>
  %0 = stow.bitwise %x, %row {kind = "and"} : (tensor<4x8xi64>, tensor<8xi64>) -> tensor<4x8xi64>
  // CHECK: stow.bitwise %{{.*}}, %{{.*}} {kind = "or"} : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  %1 = stow.bitwise %x, %x {kind = "or"} : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  // CHECK: stow.bitwise %{{.*}}, %{{.*}} {kind = "xor"} : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi32>
  %2 = stow.bitwise %n, %n {kind = "xor"} : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi32>
  // CHECK: stow.bitwise %{{.*}}, %{{.*}} {kind = "shift_left"} : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
  %3 = stow.bitwise %n, %by {kind = "shift_left"} : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
  // CHECK: stow.bitwise %{{.*}}, %{{.*}} {kind = "shift_right"} : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
  %4 = stow.bitwise %n, %by {kind = "shift_right"} : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
  return
}
