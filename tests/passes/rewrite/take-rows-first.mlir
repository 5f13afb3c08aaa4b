// RUN: stowage-opt %s --stow-take-rows-first --split-input-file | FileCheck %s

// Tests a slice of rows behind a product and elementwise ops: what the product reads is sliced instead, and of an operand that has the rows, but
// not of one that is repeated for them.
// CHECK-LABEL: func.func @model
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8x4xf32>, %[[W:[a-z0-9]+]]: tensor<6x4xf32>, %[[B:[a-z0-9]+]]: tensor<6xf32>, %[[M:[a-z0-9]+]]: tensor<1x8x1xf32>
// CHECK: %[[R:.*]] = stow.slice %[[X]] {sizes = array<i64: 2, 7, 4>, starts = array<i64: 0, 1, 0>}
// CHECK: %[[Y:.*]] = stow.matmul %[[R]], %[[W]], %[[B]] {{.*}} -> tensor<2x7x6xf32>
// CHECK: %[[N:.*]] = stow.slice %[[M]] {sizes = array<i64: 1, 7, 1>, starts = array<i64: 0, 1, 0>}
// CHECK: %[[Z:.*]] = stow.mul %[[Y]], %[[N]] {{.*}} -> tensor<2x7x6xf32>
// CHECK: %[[A:.*]] = stow.add %[[Z]], %{{.*}} : (tensor<2x7x6xf32>, tensor<f32>) -> tensor<2x7x6xf32>
// CHECK: %[[L:.*]] = stow.log_softmax %[[A]] {{.*}} -> tensor<2x7x6xf32>
// CHECK-NOT: tensor<2x8x6xf32>
// CHECK: return %[[L]]
func.func @model(%x: tensor<2x8x4xf32>, %w: tensor<6x4xf32>, %b: tensor<6xf32>, %m: tensor<1x8x1xf32>) -> tensor<2x7x6xf32> attributes {stow.role = #stow.role<model>} {
  %c = stow.constant dense<2.0> : tensor<f32>
  %y = stow.matmul %x, %w, %b {transpose_a = false, transpose_b = true} : (tensor<2x8x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<2x8x6xf32>
  %z = stow.mul %y, %m : (tensor<2x8x6xf32>, tensor<1x8x1xf32>) -> tensor<2x8x6xf32>
  %a = stow.add %z, %c : (tensor<2x8x6xf32>, tensor<f32>) -> tensor<2x8x6xf32>
  %l = stow.log_softmax %a {axis = 2 : i64} : (tensor<2x8x6xf32>) -> tensor<2x8x6xf32>
  %s = stow.slice %l {starts = array<i64: 0, 1, 0>, sizes = array<i64: 2, 7, 6>} : (tensor<2x8x6xf32>) -> tensor<2x7x6xf32>
  return %s : tensor<2x7x6xf32>
}

// -----

// Tests a constant of all elements beside the product: it is one of those that are left.
// CHECK-LABEL: func.func @model
// CHECK: stow.constant dense<3.000000e+00> : tensor<7x6xf32>
// CHECK-NOT: tensor<8x6xf32>
func.func @model(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<7x6xf32> attributes {stow.role = #stow.role<model>} {
  %c = stow.constant dense<3.0> : tensor<8x6xf32>
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %z = stow.maximum %y, %c : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %s = stow.slice %z {starts = array<i64: 0, 0>, sizes = array<i64: 7, 6>} : (tensor<8x6xf32>) -> tensor<7x6xf32>
  return %s : tensor<7x6xf32>
}

// -----

// Tests what stays: columns that are sliced, a product that others read, one that is narrower than what it reads, a softmax over rows.
// CHECK-LABEL: func.func @model
// CHECK-COUNT-4: stow.matmul {{.*}} -> tensor<8x
// CHECK-NOT: stow.matmul
func.func @model(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %v: tensor<4x3xf32>) -> (tensor<8x5xf32>, tensor<8x6xf32>, tensor<7x6xf32>, tensor<7x3xf32>, tensor<7x6xf32>) attributes {stow.role = #stow.role<model>} {
  %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %columns = stow.slice %p {starts = array<i64: 0, 1>, sizes = array<i64: 8, 5>} : (tensor<8x6xf32>) -> tensor<8x5xf32>
  %q = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %shared = stow.slice %q {starts = array<i64: 0, 0>, sizes = array<i64: 7, 6>} : (tensor<8x6xf32>) -> tensor<7x6xf32>
  %n = stow.matmul %x, %v {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  %narrow = stow.slice %n {starts = array<i64: 0, 0>, sizes = array<i64: 7, 3>} : (tensor<8x3xf32>) -> tensor<7x3xf32>
  %r = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %m = stow.softmax %r {axis = 0 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %over = stow.slice %m {starts = array<i64: 0, 0>, sizes = array<i64: 7, 6>} : (tensor<8x6xf32>) -> tensor<7x6xf32>
  return %columns, %q, %shared, %narrow, %over : tensor<8x5xf32>, tensor<8x6xf32>, tensor<7x6xf32>, tensor<7x3xf32>, tensor<7x6xf32>
}

// -----

// Tests a constant that two of the ops read: it goes when the second of them does.
// CHECK-LABEL: func.func @model
// CHECK: stow.matmul {{.*}} -> tensor<7x6xf32>
// CHECK: stow.mul {{.*}} -> tensor<7x6xf32>
// CHECK: stow.add {{.*}} -> tensor<7x6xf32>
// CHECK-NOT: tensor<8x6xf32>
func.func @model(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<7x6xf32> attributes {stow.role = #stow.role<model>} {
  %c = stow.constant dense<3.0> : tensor<8x6xf32>
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %m = stow.mul %y, %c : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %z = stow.add %m, %c : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %s = stow.slice %z {starts = array<i64: 0, 0>, sizes = array<i64: 7, 6>} : (tensor<8x6xf32>) -> tensor<7x6xf32>
  return %s : tensor<7x6xf32>
}
