// RUN: stowage-opt %s --stow-nest-concats --split-input-file | FileCheck %s

// Tests that each concat of a dense block reads the longest one before it: 3 inputs then 2, not 2
// then 3.
// CHECK-LABEL: func.func @block
// CHECK-SAME: (%[[A:.*]]: tensor<8x4x2x2xf32>, %[[B:.*]]: tensor<8x2x2x2xf32>, %[[C:.*]]: tensor<8x3x2x2xf32>, %[[D:.*]]: tensor<8x1x2x2xf32>)
// CHECK-NEXT: %[[Y:.*]] = stow.concat %[[A]], %[[B]] {axis = 1 : i64}
// CHECK-NEXT: %[[Z:.*]] = stow.concat %[[Y]], %[[C]] {axis = 1 : i64} : (tensor<8x6x2x2xf32>, tensor<8x3x2x2xf32>) -> tensor<8x9x2x2xf32>
// CHECK-NEXT: %[[U:.*]] = stow.concat %[[Z]], %[[D]] {axis = 1 : i64} : (tensor<8x9x2x2xf32>, tensor<8x1x2x2xf32>) -> tensor<8x10x2x2xf32>
func.func @block(%a: tensor<8x4x2x2xf32>, %b: tensor<8x2x2x2xf32>, %c: tensor<8x3x2x2xf32>, %d: tensor<8x1x2x2xf32>)
    -> (tensor<8x6x2x2xf32>, tensor<8x9x2x2xf32>, tensor<8x10x2x2xf32>) {
  %y = stow.concat %a, %b {axis = 1 : i64} : (tensor<8x4x2x2xf32>, tensor<8x2x2x2xf32>) -> tensor<8x6x2x2xf32>
  %z = stow.concat %a, %b, %c {axis = 1 : i64}
      : (tensor<8x4x2x2xf32>, tensor<8x2x2x2xf32>, tensor<8x3x2x2xf32>) -> tensor<8x9x2x2xf32>
  %u = stow.concat %a, %b, %c, %d {axis = 1 : i64}
      : (tensor<8x4x2x2xf32>, tensor<8x2x2x2xf32>, tensor<8x3x2x2xf32>, tensor<8x1x2x2xf32>) -> tensor<8x10x2x2xf32>
  return %y, %z, %u : tensor<8x6x2x2xf32>, tensor<8x9x2x2xf32>, tensor<8x10x2x2xf32>
}

// -----

// Tests what stays: the same inputs along another axis, behind another first input, a concat of one
// input, and the same concat again, which is for CSE.
// CHECK-LABEL: func.func @others
// CHECK-SAME: (%[[A:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<4x4xf32>)
// CHECK-NEXT: stow.concat %[[A]] {axis = 1 : i64}
// CHECK-NEXT: stow.concat %[[A]], %[[B]] {axis = 1 : i64}
// CHECK-NEXT: stow.concat %[[A]], %[[B]], %[[B]] {axis = 0 : i64}
// CHECK-NEXT: stow.concat %[[B]], %[[A]], %[[B]] {axis = 1 : i64}
// CHECK-NEXT: stow.concat %[[A]], %[[B]] {axis = 1 : i64}
func.func @others(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x8xf32>, tensor<12x4xf32>, tensor<4x12xf32>, tensor<4x8xf32>) {
  %o = stow.concat %a {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = stow.concat %a, %b {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %z = stow.concat %a, %b, %b {axis = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<12x4xf32>
  %u = stow.concat %b, %a, %b {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  %v = stow.concat %a, %b {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return %o, %y, %z, %u, %v : tensor<4x4xf32>, tensor<4x8xf32>, tensor<12x4xf32>, tensor<4x12xf32>, tensor<4x8xf32>
}
