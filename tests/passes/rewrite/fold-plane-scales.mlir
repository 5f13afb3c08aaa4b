// RUN: stowage-opt %s --stow-fold-plane-scales --split-input-file | FileCheck %s

// Tests that a scale and a shift per channel, either side first, end up in the normalization.
// CHECK-LABEL: func.func @affine
// CHECK-SAME: (%[[X:.*]]: tensor<2x4x3x3xf32>, %[[N:.*]]: tensor<2x4x1x1xf32>, %[[W:.*]]: tensor<4x1x1xf32>)
// CHECK-NEXT: %[[SLOPE:.*]] = stow.mul %[[N]], %[[W]] : (tensor<2x4x1x1xf32>, tensor<4x1x1xf32>) -> tensor<2x4x1x1xf32>
// CHECK-NEXT: %[[SHIFT:.*]] = stow.mul %[[N]], %[[W]]
// CHECK-NEXT: %[[SUM:.*]] = stow.add %[[SHIFT]], %[[W]]
// CHECK-NEXT: %[[Y:.*]] = stow.plane_normalize %[[X]], %[[N]], %[[SLOPE]], %[[SUM]]
// CHECK-NEXT: return %[[Y]]
func.func @affine(%x: tensor<2x4x3x3xf32>, %n: tensor<2x4x1x1xf32>, %w: tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32> {
  %0 = stow.plane_normalize %x, %n, %n, %n : (tensor<2x4x3x3xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x3x3xf32>
  %1 = stow.mul %w, %0 : (tensor<4x1x1xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %2 = stow.add %1, %w : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
  return %2 : tensor<2x4x3x3xf32>
}

// -----

// Tests what stays: a factor per column, and a normalized tensor that two ops read.
// CHECK-LABEL: func.func @others
// CHECK: stow.plane_normalize
// CHECK-NEXT: stow.mul {{.*}} (tensor<2x4x3x3xf32>, tensor<3xf32>)
// CHECK-NEXT: stow.plane_normalize
// CHECK-NEXT: stow.mul
// CHECK-NEXT: stow.add
func.func @others(%x: tensor<2x4x3x3xf32>, %n: tensor<2x4x1x1xf32>, %c: tensor<3xf32>)
    -> (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) {
  %0 = stow.plane_normalize %x, %n, %n, %n : (tensor<2x4x3x3xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x3x3xf32>
  %1 = stow.mul %0, %c : (tensor<2x4x3x3xf32>, tensor<3xf32>) -> tensor<2x4x3x3xf32>
  %2 = stow.plane_normalize %x, %n, %n, %n : (tensor<2x4x3x3xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x3x3xf32>
  %3 = stow.mul %2, %n : (tensor<2x4x3x3xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x3x3xf32>
  %4 = stow.add %2, %n : (tensor<2x4x3x3xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x3x3xf32>
  return %1, %3, %4 : tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>
}
