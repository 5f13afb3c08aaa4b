// RUN: stowage-opt %s --canonicalize | FileCheck %s

// Tests that adding 0 and multiplying by 1 disappear, on either side, scalars included.
// CHECK-LABEL: func.func @identities
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @identities(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %zero = stow.constant dense<0.0> : tensor<f32>
  %one = stow.constant dense<1.0> : tensor<8xf32>
  %0 = stow.add %x, %zero : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = stow.add %zero, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = stow.sub %x, %zero : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = stow.mul %x, %one : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = stow.mul %one, %x : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = stow.div %x, %one : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// Tests that an op that also broadcasts stays, and that 0 - x and 1 / x stay.
// CHECK-LABEL: func.func @kept
// CHECK: stow.add
// CHECK: stow.sub
// CHECK: stow.div
func.func @kept(%x: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %zeros = stow.constant dense<0.0> : tensor<4x8xf32>
  %zero = stow.constant dense<0.0> : tensor<f32>
  %one = stow.constant dense<1.0> : tensor<f32>
  %0 = stow.add %x, %zeros : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = stow.sub %zero, %x : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = stow.div %one, %x : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
}
