// RUN: stowage-opt %s --stow-expand-outer-products --split-input-file | FileCheck %s

// Tests the gradient of what a row of weights reads, and of the factors each read transposed.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[DS:[a-z0-9]+]]: tensor<8x5x1xf32>, %[[W:[a-z0-9]+]]: tensor<10x1xf32>, %[[X:[a-z0-9]+]]: tensor<1x6xf32>, %[[DY:[a-z0-9]+]]: tensor<1x4xf32>
// CHECK-NEXT: %[[R:.*]] = stow.reshape %[[W]] {stow.phase = #stow.phase<backward>} : (tensor<10x1xf32>) -> tensor<1x10xf32>
// CHECK-NEXT: %[[G:.*]] = stow.mul %[[DS]], %[[R]] {stow.phase = #stow.phase<backward>} : (tensor<8x5x1xf32>, tensor<1x10xf32>) -> tensor<8x5x10xf32>
// CHECK-NEXT: %[[C:.*]] = stow.reshape %[[DY]] {stow.phase = #stow.phase<backward>} : (tensor<1x4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[DW:.*]] = stow.mul %[[C]], %[[X]] {stow.phase = #stow.phase<backward>} : (tensor<4x1xf32>, tensor<1x6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT: return %[[G]], %[[DW]]
func.func @train(%ds: tensor<8x5x1xf32>, %w: tensor<10x1xf32>, %x: tensor<1x6xf32>, %dy: tensor<1x4xf32>) -> (tensor<8x5x10xf32>, tensor<4x6xf32>) attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %ds, %w {transpose_a = false, transpose_b = true, stow.phase = #stow.phase<backward>} : (tensor<8x5x1xf32>, tensor<10x1xf32>) -> tensor<8x5x10xf32>
  %dw = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<1x4xf32>, tensor<1x6xf32>) -> tensor<4x6xf32>
  return %g, %dw : tensor<8x5x10xf32>, tensor<4x6xf32>
}

// -----

// Tests leading dimensions that broadcast, and 16-bit factors of a wider product.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<3x1x4x1xbf16>, %[[B:[a-z0-9]+]]: tensor<2x1x5xbf16>
// CHECK-NEXT: %[[Y:.*]] = stow.mul %[[A]], %[[B]] : (tensor<3x1x4x1xbf16>, tensor<2x1x5xbf16>) -> tensor<3x2x4x5xf32>
// CHECK-NEXT: return %[[Y]]
func.func @train(%a: tensor<3x1x4x1xbf16>, %b: tensor<2x1x5xbf16>) -> tensor<3x2x4x5xf32> attributes {stow.role = #stow.role<train>} {
  %y = stow.matmul %a, %b {transpose_a = false, transpose_b = false} : (tensor<3x1x4x1xbf16>, tensor<2x1x5xbf16>) -> tensor<3x2x4x5xf32>
  return %y : tensor<3x2x4x5xf32>
}

// -----

// Tests what stays: a product with a bias, and one that contracts two elements.
// CHECK-LABEL: func.func @train
// CHECK-COUNT-2: stow.matmul
// CHECK-NEXT: return
func.func @train(%x: tensor<8x1xf32>, %w: tensor<4x1xf32>, %b: tensor<4xf32>, %u: tensor<2x8xf32>, %v: tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) attributes {stow.role = #stow.role<train>} {
  %y = stow.matmul %x, %w, %b {transpose_a = false, transpose_b = true} : (tensor<8x1xf32>, tensor<4x1xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %z = stow.matmul %u, %v {transpose_a = true, transpose_b = false} : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
  return %y, %z : tensor<8x4xf32>, tensor<8x4xf32>
}
