// RUN: stowage-opt %s --stow-scatter-into-sums --split-input-file | FileCheck %s

// Tests a table that is a head as well, the scatter on either side of the sum.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<50x8xf32>, %[[DY:[a-z0-9]+]]: tensor<4x8xf32>, %[[T:[a-z0-9]+]]: tensor<4xi64>
// CHECK-NEXT: %[[D:.*]], %{{.*}} = stow.embedding_grad_add %[[H]], %[[DY]], %[[T]] {padding_index = 3 : i64, stow.phase = #stow.phase<backward>}
// CHECK-NEXT: %[[E:.*]], %{{.*}} = stow.embedding_grad_add %[[D]], %[[DY]], %[[T]] {stow.phase = #stow.phase<backward>}
// CHECK-NEXT: return %[[E]]
func.func @train(%h: tensor<50x8xf32>, %dy: tensor<4x8xf32>, %t: tensor<4xi64>) -> tensor<50x8xf32> attributes {stow.role = #stow.role<train>} {
  %e = stow.embedding_grad %dy, %t {rows = 50 : i64, padding_index = 3 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<50x8xf32>
  %d = stow.add %h, %e {stow.phase = #stow.phase<backward>} : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  %f = stow.embedding_grad %dy, %t {rows = 50 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<50x8xf32>
  %s = stow.add %f, %d {stow.phase = #stow.phase<backward>} : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  return %s : tensor<50x8xf32>
}

// -----

// Tests what stays: a scatter that is read otherwise too, and one of more indices than pay.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.embedding_grad_add
// CHECK: return
func.func @train(%h: tensor<50x8xf32>, %dy: tensor<4x8xf32>, %t: tensor<4xi64>, %dz: tensor<64x8xf32>, %u: tensor<64xi64>) -> (tensor<50x8xf32>, tensor<50x8xf32>, tensor<50x8xf32>) attributes {stow.role = #stow.role<train>} {
  %e = stow.embedding_grad %dy, %t {rows = 50 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<50x8xf32>
  %d = stow.add %h, %e {stow.phase = #stow.phase<backward>} : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  %f = stow.embedding_grad %dz, %u {rows = 50 : i64, stow.phase = #stow.phase<backward>} : (tensor<64x8xf32>, tensor<64xi64>) -> tensor<50x8xf32>
  %g = stow.add %h, %f {stow.phase = #stow.phase<backward>} : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  return %d, %e, %g : tensor<50x8xf32>, tensor<50x8xf32>, tensor<50x8xf32>
}
