// RUN: stowage-opt %s --stow-chunk-rows=loss-chunks=2 --split-input-file --verify-diagnostics | FileCheck %s

// Tests a head with a bias, its product of rank 3: forward and backward of each chunk of rows stand
// together; the gradients of weight and bias are summed, the others and the losses joined; what reads the
// losses comes behind.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x4xf32>, %[[T:[a-z0-9]+]]: tensor<8xi64>, %[[W:[a-z0-9]+]]: tensor<6x4xf32>, %[[B:[a-z0-9]+]]: tensor<6xf32>, %[[D:[a-z0-9]+]]: tensor<8xf32>
// CHECK: %[[X0:.*]] = stow.slice %{{.*}} {sizes = array<i64: 4, 4>, starts = array<i64: 0, 0>
// CHECK: %[[Y0:.*]] = stow.matmul %[[X0]], %[[W]], %[[B]] {{.*}} -> tensor<4x6xf32>
// CHECK: %[[T0:.*]] = stow.slice %[[T]]
// CHECK: %[[L0:.*]], %[[S0:.*]] = stow.cross_entropy_rows %[[Y0]], %[[T0]]
// CHECK: %[[D0:.*]] = stow.slice %[[D]]
// CHECK: %[[G0:.*]] = stow.cross_entropy_rows_grad %[[Y0]], %[[T0]], %[[S0]], %[[D0]]
// CHECK: %[[DX0:.*]] = stow.matmul %[[G0]], %[[W]] {{.*}} -> tensor<4x4xf32>
// CHECK: %[[DW0:.*]] = stow.matmul %[[G0]], %{{.*}} {{.*}}transpose_a = true{{.*}} -> tensor<6x4xf32>
// CHECK: %[[DB0:.*]] = stow.reduce_sum %[[G0]] {axes = array<i64: 0>
// CHECK: %[[X1:.*]] = stow.slice %{{.*}} {sizes = array<i64: 4, 4>, starts = array<i64: 4, 0>
// CHECK: %[[L1:.*]], %{{.*}} = stow.cross_entropy_rows
// CHECK: %[[G1:.*]] = stow.cross_entropy_rows_grad
// CHECK: %[[DX1:.*]] = stow.matmul %[[G1]], %[[W]]
// CHECK: %[[DW1:.*]] = stow.matmul %[[G1]], %{{.*}}
// CHECK: %[[DW:.*]] = stow.add %[[DW0]], %[[DW1]]
// CHECK: %[[DB1:.*]] = stow.reduce_sum %[[G1]]
// CHECK: %[[DB:.*]] = stow.add %[[DB0]], %[[DB1]]
// CHECK: %[[L:.*]] = stow.concat %[[L0]], %[[L1]] {axis = 0 : i64
// CHECK: %[[DX:.*]] = stow.concat %[[DX0]], %[[DX1]]
// CHECK: %[[DX3:.*]] = stow.reshape %[[DX]] {{.*}} -> tensor<2x4x4xf32>
// CHECK: %[[LOSS:.*]] = stow.reduce_sum %[[L]]
// CHECK: return %[[LOSS]], %[[DX3]], %[[DW]], %[[DB]]
func.func @train(%x: tensor<2x4x4xf32>, %t: tensor<8xi64>, %w: tensor<6x4xf32>, %b: tensor<6xf32>, %drow: tensor<8xf32>) -> (tensor<f32>, tensor<2x4x4xf32>, tensor<6x4xf32>, tensor<6xf32>) attributes {stow.role = #stow.role<train>} {
  %y3 = stow.matmul %x, %w, %b {transpose_a = false, transpose_b = true} : (tensor<2x4x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
  %y = stow.reshape %y3 : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %l, %s = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<8x6xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %loss = stow.reduce_sum %l {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
  %g = stow.cross_entropy_rows_grad %y, %t, %s, %drow {ignore_index = -100 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x6xf32>
  %g3 = stow.reshape %g {stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
  %x2 = stow.reshape %x {stow.phase = #stow.phase<backward>} : (tensor<2x4x4xf32>) -> tensor<8x4xf32>
  %dw = stow.matmul %g, %x2 {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %db = stow.reduce_sum %g3 {axes = array<i64: 0, 1>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>) -> tensor<6xf32>
  %dx = stow.matmul %g3, %w {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>, tensor<6x4xf32>) -> tensor<2x4x4xf32>
  return %loss, %dx, %dw, %db : tensor<f32>, tensor<2x4x4xf32>, tensor<6x4xf32>, tensor<6xf32>
}

// -----

// Tests a gradient by the losses that depends on all of them: forward and backward stand apart, and chunks of the logits between them.
// CHECK-LABEL: func.func @train
// CHECK: %[[Y0:.*]] = stow.matmul {{.*}} -> tensor<4x6xf32>
// CHECK: stow.cross_entropy_rows %[[Y0]]
// CHECK: %[[Y1:.*]] = stow.matmul {{.*}} -> tensor<4x6xf32>
// CHECK: stow.cross_entropy_rows %[[Y1]]
// CHECK: %[[L:.*]] = stow.concat
// CHECK: stow.reduce_sum %[[L]]
// CHECK: stow.cross_entropy_rows_grad %[[Y0]]
// CHECK: stow.cross_entropy_rows_grad %[[Y1]]
// CHECK-NOT: tensor<8x6xf32>
func.func @train(%x: tensor<8x4xf32>, %t: tensor<8xi64>, %w: tensor<6x4xf32>) -> (tensor<f32>, tensor<8x4xf32>) attributes {stow.role = #stow.role<train>} {
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
  %l, %s = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<8x6xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %sum = stow.reduce_sum %l {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
  %drow = stow.broadcast_to %sum {stow.phase = #stow.phase<backward>} : (tensor<f32>) -> tensor<8xf32>
  %g = stow.cross_entropy_rows_grad %y, %t, %s, %drow {ignore_index = -100 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x6xf32>
  %dx = stow.matmul %g, %w {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  return %sum, %dx : tensor<f32>, tensor<8x4xf32>
}

// -----

// Tests a head whose logits are read otherwise.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.slice
// expected-warning @+1 {{no head runs in 2 chunks}}
module {
  func.func @train(%x: tensor<8x4xf32>, %t: tensor<8xi64>, %w: tensor<6x4xf32>, %drow: tensor<8xf32>) -> (tensor<8xf32>, tensor<8x6xf32>, tensor<8x4xf32>) attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
    %l, %s = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<8x6xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
    %g = stow.cross_entropy_rows_grad %y, %t, %s, %drow {ignore_index = -100 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x6xf32>
    %dx = stow.matmul %g, %w {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    return %l, %y, %dx : tensor<8xf32>, tensor<8x6xf32>, tensor<8x4xf32>
  }
}

// -----

// Tests a bias that is added behind the product, as [1,1,6].
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<1x1x6xf32>
// CHECK: %[[P0:.*]] = stow.matmul {{.*}} -> tensor<4x6xf32>
// CHECK: %[[B0:.*]] = stow.reshape %[[B]] {{.*}} -> tensor<6xf32>
// CHECK: %[[Y0:.*]] = stow.add %[[P0]], %[[B0]] {{.*}} -> tensor<4x6xf32>
// CHECK: stow.cross_entropy_rows %[[Y0]]
// CHECK: stow.cross_entropy_rows_grad
// CHECK: stow.cross_entropy_rows_grad
// CHECK-NOT: tensor<8x6xf32>
func.func @train(%x: tensor<2x4x4xf32>, %t: tensor<8xi64>, %w: tensor<4x6xf32>, %drow: tensor<8xf32>, %b: tensor<1x1x6xf32>) -> (tensor<8xf32>, tensor<4x6xf32>) attributes {stow.role = #stow.role<train>} {
  %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<2x4x4xf32>, tensor<4x6xf32>) -> tensor<2x4x6xf32>
  %y3 = stow.add %p, %b : (tensor<2x4x6xf32>, tensor<1x1x6xf32>) -> tensor<2x4x6xf32>
  %y = stow.reshape %y3 : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %l, %s = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<8x6xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %g = stow.cross_entropy_rows_grad %y, %t, %s, %drow {ignore_index = -100 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x6xf32>
  %x2 = stow.reshape %x {stow.phase = #stow.phase<backward>} : (tensor<2x4x4xf32>) -> tensor<8x4xf32>
  %dw = stow.matmul %x2, %g {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %l, %dw : tensor<8xf32>, tensor<4x6xf32>
}

// -----

// Tests a dropout between product and loss, which numbers its elements: chunks would count them anew.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.slice
// expected-warning @+1 {{no head runs in 2 chunks}}
module {
  func.func @train(%x: tensor<8x4xf32>, %t: tensor<8xi64>, %w: tensor<6x4xf32>, %drow: tensor<8xf32>, %seed: tensor<i64>) -> (tensor<8xf32>, tensor<8x4xf32>) attributes {stow.role = #stow.role<train>} {
    %p = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
    %y = stow.dropout_training %p, %seed {ratio = 0.5 : f64, stream = 0 : i64} : (tensor<8x6xf32>, tensor<i64>) -> tensor<8x6xf32>
    %l, %s = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<8x6xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
    %g = stow.cross_entropy_rows_grad %y, %t, %s, %drow {ignore_index = -100 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x6xf32>
    %dx = stow.matmul %g, %w {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    return %l, %dx : tensor<8xf32>, tensor<8x4xf32>
  }
}
