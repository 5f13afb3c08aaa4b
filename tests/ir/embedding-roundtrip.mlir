// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that tables read by index print and parse, with indices of both widths.
// CHECK-LABEL: func.func @embedding
func.func @embedding(%t: tensor<50x8xf32>, %i: tensor<4x6xi64>, %j: tensor<3xi32>) {
  // CHECK: stow.embedding %{{.*}} : (tensor<50x8xf32>, tensor<4x6xi64>) -> tensor<4x6x8xf32>
  %0 = stow.embedding %t, %i : (tensor<50x8xf32>, tensor<4x6xi64>) -> tensor<4x6x8xf32>
  // CHECK: stow.embedding %{{.*}} : (tensor<50x8xf32>, tensor<3xi32>) -> tensor<3x8xf32>
  %1 = stow.embedding %t, %j : (tensor<50x8xf32>, tensor<3xi32>) -> tensor<3x8xf32>
  // CHECK: stow.embedding_grad %{{.*}} {rows = 50 : i64} : (tensor<4x6x8xf32>, tensor<4x6xi64>) -> tensor<50x8xf32>
  %2 = stow.embedding_grad %0, %i {rows = 50 : i64} : (tensor<4x6x8xf32>, tensor<4x6xi64>) -> tensor<50x8xf32>
  // CHECK: stow.embedding %{{.*}} {padding_index = 49 : i64}
  %3 = stow.embedding %t, %i {padding_index = 49 : i64} : (tensor<50x8xf32>, tensor<4x6xi64>) -> tensor<4x6x8xf32>
  // CHECK: stow.embedding_grad %{{.*}} {padding_index = 0 : i64, rows = 50 : i64}
  %4 = stow.embedding_grad %0, %i {rows = 50 : i64, padding_index = 0 : i64} : (tensor<4x6x8xf32>, tensor<4x6xi64>) -> tensor<50x8xf32>
  // CHECK: stow.embedding_grad_add %{{.*}} {padding_index = 0 : i64} : (tensor<50x8xf32>, tensor<4x6x8xf32>, tensor<4x6xi64>) -> (tensor<50x8xf32>, tensor<4x6x8xf32>)
  %5:2 = stow.embedding_grad_add %t, %0, %i {padding_index = 0 : i64} : (tensor<50x8xf32>, tensor<4x6x8xf32>, tensor<4x6xi64>) -> (tensor<50x8xf32>, tensor<4x6x8xf32>)
  return
}
