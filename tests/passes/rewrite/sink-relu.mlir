// RUN: stowage-opt %s --stow-sink-relu --split-input-file | FileCheck %s

// Tests that the pooling comes first: the relu then has 2*1*2*2*4 = 32 bytes instead of 128.
// CHECK-LABEL: func.func @model
// CHECK: %[[P:.*]] = stow.max_pool %{{.*}} : (tensor<2x1x4x4xf32>) -> tensor<2x1x2x2xf32>
// CHECK-NEXT: %[[R:.*]] = stow.relu %[[P]] : (tensor<2x1x2x2xf32>) -> tensor<2x1x2x2xf32>
// CHECK-NEXT: return %[[R]]
func.func @model(%x: tensor<2x1x4x4xf32>) -> tensor<2x1x2x2xf32> attributes {stow.role = #stow.role<model>} {
  %r = stow.relu %x : (tensor<2x1x4x4xf32>) -> tensor<2x1x4x4xf32>
  %y = stow.max_pool %r {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x1x4x4xf32>) -> tensor<2x1x2x2xf32>
  return %y : tensor<2x1x2x2xf32>
}

// -----

// Tests that a relu with another reader stays: both values would be needed.
// CHECK-LABEL: func.func @shared
// CHECK: %[[R:.*]] = stow.relu
// CHECK-NEXT: %[[P:.*]] = stow.max_pool %[[R]]
// CHECK-NEXT: return %[[P]], %[[R]]
func.func @shared(%x: tensor<2x1x4x4xf32>) -> (tensor<2x1x2x2xf32>, tensor<2x1x4x4xf32>) {
  %r = stow.relu %x : (tensor<2x1x4x4xf32>) -> tensor<2x1x4x4xf32>
  %y = stow.max_pool %r {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x1x4x4xf32>) -> tensor<2x1x2x2xf32>
  return %y, %r : tensor<2x1x2x2xf32>, tensor<2x1x4x4xf32>
}

// -----

// Tests that one relu sinks below two poolings in a row, and that all readers of the pooling follow.
// CHECK-LABEL: func.func @twice
// CHECK: %[[P:.*]] = stow.max_pool
// CHECK-NEXT: %[[Q:.*]] = stow.max_pool %[[P]]
// CHECK-NEXT: %[[R:.*]] = stow.relu %[[Q]] : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
// CHECK-NEXT: %[[A:.*]] = stow.add %[[R]], %[[R]]
// CHECK-NEXT: return %[[A]], %[[R]]
func.func @twice(%x: tensor<1x1x8x8xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
  %r = stow.relu %x : (tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  %p = stow.max_pool %r {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x1x8x8xf32>) -> tensor<1x1x4x4xf32>
  %q = stow.max_pool %p {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32>
  %a = stow.add %q, %q : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  return %a, %q : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
}

// -----

// Tests that nothing but max pooling lets a relu pass: an average is not monotone in each element's
// sign, and a leaky relu is not a relu.
// CHECK-LABEL: func.func @others
// CHECK: stow.relu
// CHECK-NEXT: stow.avg_pool
// CHECK-NEXT: stow.leaky_relu
// CHECK-NEXT: stow.max_pool
func.func @others(%x: tensor<1x1x8x8xf32>) -> tensor<1x1x2x2xf32> {
  %r = stow.relu %x : (tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  %p = stow.avg_pool %r {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = true}
      : (tensor<1x1x8x8xf32>) -> tensor<1x1x4x4xf32>
  %l = stow.leaky_relu %p {alpha = 0.1 : f64} : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %q = stow.max_pool %l {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32>
  return %q : tensor<1x1x2x2xf32>
}
