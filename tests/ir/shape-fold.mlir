// RUN: stowage-opt %s --canonicalize | FileCheck %s

// Tests that a reshape to the same type, chains of reshapes, and identity permutations disappear.
// CHECK-LABEL: func.func @views
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x6xf32>
// CHECK-NEXT: %[[F:.*]] = stow.reshape %[[X]] : (tensor<2x6xf32>) -> tensor<12xf32>
// CHECK-NEXT: return %[[X]], %[[F]], %[[X]], %[[X]]
func.func @views(%x: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<12xf32>, tensor<2x6xf32>, tensor<2x6xf32>) {
  %0 = stow.reshape %x : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %1 = stow.reshape %x : (tensor<2x6xf32>) -> tensor<3x4xf32>
  %2 = stow.reshape %1 : (tensor<3x4xf32>) -> tensor<12xf32>
  %3 = stow.transpose %x {permutation = array<i64: 0, 1>} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %4 = stow.reshape %2 : (tensor<12xf32>) -> tensor<2x6xf32>
  return %0, %2, %3, %4 : tensor<2x6xf32>, tensor<12xf32>, tensor<2x6xf32>, tensor<2x6xf32>
}

// Tests that a permutation that moves something stays.
// CHECK-LABEL: func.func @moves
// CHECK: stow.transpose
func.func @moves(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stow.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// Tests that permutations in a row are one, and none when the second undoes the first.
// CHECK-LABEL: func.func @permutations
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x3x4xf32>
// CHECK-NEXT: %[[T:.*]] = stow.transpose %[[X]] {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
// CHECK-NEXT: return %[[T]], %[[X]]
func.func @permutations(%x: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  %0 = stow.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %1 = stow.transpose %0 {permutation = array<i64: 1, 0, 2>} : (tensor<2x4x3xf32>) -> tensor<4x2x3xf32>
  %2 = stow.transpose %0 {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  return %1, %2 : tensor<4x2x3xf32>, tensor<2x3x4xf32>
}

// Tests that equal constants become one, and that unused ones go.
// CHECK-LABEL: func.func @constants
// CHECK-COUNT-1: stow.constant dense<1.000000e+00>
// CHECK-NOT: stow.constant
func.func @constants(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = stow.constant dense<1.0> : tensor<f32>
  %b = stow.constant dense<1.0> : tensor<f32>
  %c = stow.constant dense<2.0> : tensor<f32>
  %0 = stow.add %x, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stow.sub %x, %b : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
