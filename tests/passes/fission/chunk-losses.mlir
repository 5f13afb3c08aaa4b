// RUN: stowage-opt %s --stow-chunk-rows=loss-chunks=2 --split-input-file --verify-diagnostics | FileCheck %s

// Tests log-probabilities of chosen classes: one number a row is left, of which the loss is a weighted sum. Their gradients are known without them, so that
// forward and backward of a chunk stand together. A factor of each sequence is repeated for its rows; what is made of data alone, and small, stays as it is.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x4xf32>, %[[T:[a-z0-9]+]]: tensor<2x4x1xi64>, %[[W:[a-z0-9]+]]: tensor<6x4xf32>, %[[F:[a-z0-9]+]]: tensor<2x1xf32>
// CHECK: %[[D:.*]] = stow.mul %{{.*}}, %[[F]] {{.*}} -> tensor<2x4xf32>
// CHECK: %[[Y0:.*]] = stow.matmul %{{.*}}, %[[W]] {{.*}} -> tensor<4x6xf32>
// CHECK: %[[L0:.*]] = stow.log_softmax %[[Y0]] {axis = 1 : i64
// CHECK: %[[T0:.*]] = stow.slice %{{.*}} -> tensor<4x1xi64>
// CHECK: %[[P0:.*]] = stow.take_along %[[L0]], %[[T0]] {axis = 1 : i64
// CHECK: %[[FS:.*]] = stow.broadcast_to %[[F]] {{.*}} -> tensor<2x4xf32>
// CHECK: stow.mul %[[P0]], %{{.*}} -> tensor<4x1xf32>
// CHECK: %[[DS:.*]] = stow.reshape %[[D]] {{.*}} -> tensor<8x1xf32>
// CHECK: %[[D0:.*]] = stow.slice %[[DS]]
// CHECK: %[[S0:.*]] = stow.scatter_along %[[D0]], %[[T0]] {axis = 1 : i64, extent = 6 : i64{{.*}} -> tensor<4x6xf32>
// CHECK: %[[G0:.*]] = stow.log_softmax_grad %[[S0]], %[[L0]] {axis = 1 : i64
// CHECK: %[[DX0:.*]] = stow.matmul %[[G0]], %[[W]]
// CHECK: %[[DW0:.*]] = stow.matmul %[[G0]], %{{.*}} transpose_a = true
// CHECK: stow.log_softmax_grad
// CHECK: %[[DW:.*]] = stow.add %[[DW0]], %{{.*}}
// CHECK: %[[Q:.*]] = stow.concat {{.*}} -> tensor<8x1xf32>
// CHECK: %[[QS:.*]] = stow.reshape %[[Q]] {{.*}} -> tensor<2x4xf32>
// CHECK: %[[DX:.*]] = stow.concat %[[DX0]], %{{.*}}
// CHECK: stow.reduce_sum %[[QS]] {axes = array<i64: 0, 1>
// CHECK-NOT: tensor<2x4x6xf32>
func.func @train(%x: tensor<2x4x4xf32>, %t: tensor<2x4x1xi64>, %w: tensor<6x4xf32>, %f: tensor<2x1xf32>) -> (tensor<f32>, tensor<2x4x4xf32>, tensor<6x4xf32>) attributes {stow.role = #stow.role<train>} {
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<2x4x4xf32>, tensor<6x4xf32>) -> tensor<2x4x6xf32>
  %l = stow.log_softmax %y {axis = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %p3 = stow.take_along %l, %t {axis = 2 : i64} : (tensor<2x4x6xf32>, tensor<2x4x1xi64>) -> tensor<2x4x1xf32>
  %p = stow.reshape %p3 : (tensor<2x4x1xf32>) -> tensor<2x4xf32>
  %q = stow.mul %p, %f : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %loss = stow.reduce_sum %q {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x4xf32>) -> tensor<f32>
  %one = stow.constant dense<1.0> : tensor<1x1xf32>
  %dq = stow.broadcast_to %one {stow.phase = #stow.phase<backward>} : (tensor<1x1xf32>) -> tensor<2x4xf32>
  %dp = stow.mul %dq, %f {stow.phase = #stow.phase<backward>} : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %dp3 = stow.reshape %dp {stow.phase = #stow.phase<backward>} : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %dl = stow.scatter_along %dp3, %t {axis = 2 : i64, extent = 6 : i64, stow.phase = #stow.phase<backward>} : (tensor<2x4x1xf32>, tensor<2x4x1xi64>) -> tensor<2x4x6xf32>
  %g = stow.log_softmax_grad %dl, %l {axis = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %g2 = stow.reshape %g {stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %x2 = stow.reshape %x {stow.phase = #stow.phase<backward>} : (tensor<2x4x4xf32>) -> tensor<8x4xf32>
  %dw = stow.matmul %g2, %x2 {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %dx = stow.matmul %g, %w {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>, tensor<6x4xf32>) -> tensor<2x4x4xf32>
  return %loss, %dx, %dw : tensor<f32>, tensor<2x4x4xf32>, tensor<6x4xf32>
}

// -----

// Tests rows that meet in sums over sequences, and a gradient that depends on these: the forward of all chunks, the sums, then the backward of all chunks, each of
// which reads what the forward made of the same rows.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x4xf32>, %[[W:[a-z0-9]+]]: tensor<6x4xf32>
// CHECK: %[[Y0:.*]] = stow.matmul {{.*}} -> tensor<4x6xf32>
// CHECK: %[[E0:.*]] = stow.exp %[[Y0]]
// CHECK: %[[R0:.*]] = stow.reduce_sum %[[E0]] {axes = array<i64: 1>, keepdims = false} : (tensor<4x6xf32>) -> tensor<4xf32>
// CHECK: %[[E1:.*]] = stow.exp
// CHECK: %[[R1:.*]] = stow.reduce_sum
// CHECK: %[[R:.*]] = stow.concat %[[R0]], %[[R1]] {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
// CHECK: %[[S:.*]] = stow.reshape %[[R]] : (tensor<8xf32>) -> tensor<2x4xf32>
// CHECK: %[[SUM:.*]] = stow.reduce_sum %[[S]] {axes = array<i64: 1>, keepdims = false} : (tensor<2x4xf32>) -> tensor<2xf32>
// CHECK: %[[K:.*]] = stow.tanh %[[SUM]] : (tensor<2xf32>)
// CHECK: stow.broadcast_to {{.*}} -> tensor<2x4x1xf32>
// CHECK: %[[G0:.*]] = stow.mul %[[E0]], %{{.*}} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
// CHECK: stow.matmul %[[G0]], %{{.*}} transpose_a = true
// CHECK: %[[G1:.*]] = stow.mul %[[E1]], %{{.*}} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
// CHECK: stow.matmul %[[G1]], %{{.*}} transpose_a = true
// CHECK-NOT: tensor<2x4x6xf32>
func.func @train(%x: tensor<2x4x4xf32>, %w: tensor<6x4xf32>) -> (tensor<2xf32>, tensor<6x4xf32>) attributes {stow.role = #stow.role<train>} {
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<2x4x4xf32>, tensor<6x4xf32>) -> tensor<2x4x6xf32>
  %e = stow.exp %y : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %s = stow.reduce_sum %e {axes = array<i64: 1, 2>, keepdims = false} : (tensor<2x4x6xf32>) -> tensor<2xf32>
  %k = stow.tanh %s : (tensor<2xf32>) -> tensor<2xf32>
  %k3 = stow.reshape %k {stow.phase = #stow.phase<backward>} : (tensor<2xf32>) -> tensor<2x1x1xf32>
  %g = stow.mul %e, %k3 {stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>, tensor<2x1x1xf32>) -> tensor<2x4x6xf32>
  %g2 = stow.reshape %g {stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %x2 = stow.reshape %x {stow.phase = #stow.phase<backward>} : (tensor<2x4x4xf32>) -> tensor<8x4xf32>
  %dw = stow.matmul %g2, %x2 {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  return %k, %dw : tensor<2xf32>, tensor<6x4xf32>
}

// -----

// Tests two heads of logits, of which one is not trained, and a mean over rows and columns at once: columns first, then rows of the joined means. Neither what a scalar is repeated to nor a
// constant of all elements exists whole.
// CHECK-LABEL: func.func @train
// CHECK: %[[Y0:.*]] = stow.matmul {{.*}} -> tensor<4x6xf32>
// CHECK: %[[Z0:.*]] = stow.matmul {{.*}} -> tensor<4x6xf32>
// CHECK: %[[P0:.*]] = stow.softmax %[[Z0]]
// CHECK: %[[C0:.*]] = stow.constant {{.*}}dense<1.000000e+00> : tensor<4x6xf32>
// CHECK: stow.maximum %{{.*}}, %[[C0]]
// CHECK: %[[B0:.*]] = stow.broadcast_to %{{.*}} -> tensor<4x6xf32>
// CHECK: stow.reduce_mean %{{.*}} {axes = array<i64: 1>, keepdims = false{{.*}} : (tensor<4x6xf32>) -> tensor<4xf32>
// CHECK: %[[M:.*]] = stow.concat {{.*}} -> tensor<8xf32>
// CHECK: stow.reshape %[[M]] {{.*}} -> tensor<2x4x1xf32>
// CHECK: stow.reduce_mean %{{.*}} {axes = array<i64: 0, 1>, keepdims = true{{.*}} : (tensor<2x4x1xf32>) -> tensor<1x1x1xf32>
// CHECK-NOT: tensor<2x4x6xf32>
func.func @train(%x: tensor<2x4x4xf32>, %u: tensor<2x4x4xf32>, %w: tensor<6x4xf32>, %v: tensor<6x4xf32>, %scale: tensor<f32>) -> (tensor<1x1x1xf32>, tensor<2x4x4xf32>) attributes {stow.role = #stow.role<train>} {
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<2x4x4xf32>, tensor<6x4xf32>) -> tensor<2x4x6xf32>
  %z = stow.matmul %u, %v {transpose_a = false, transpose_b = true} : (tensor<2x4x4xf32>, tensor<6x4xf32>) -> tensor<2x4x6xf32>
  %p = stow.softmax %z {axis = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %ones = stow.constant dense<1.0> : tensor<2x4x6xf32>
  %q = stow.maximum %p, %ones : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %m = stow.mul %y, %q : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %loss = stow.reduce_mean %m {axes = array<i64: 0, 1, 2>, keepdims = true} : (tensor<2x4x6xf32>) -> tensor<1x1x1xf32>
  %dm = stow.broadcast_to %scale {stow.phase = #stow.phase<backward>} : (tensor<f32>) -> tensor<2x4x6xf32>
  %g = stow.mul %dm, %q {stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %dx = stow.matmul %g, %w {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>, tensor<6x4xf32>) -> tensor<2x4x4xf32>
  return %loss, %dx : tensor<1x1x1xf32>, tensor<2x4x4xf32>
}

// -----

// Tests evaluations: the head of one that gives a number a row runs in chunks, too; one that gives logits does not.
// CHECK-LABEL: func.func @train
// CHECK-COUNT-2: stow.reduce_max {{.*}} : (tensor<4x6xf32>) -> tensor<4x1xf32>
// CHECK-LABEL: func.func @eval
// CHECK-COUNT-2: stow.reduce_max {{.*}} : (tensor<4x6xf32>) -> tensor<4x1xf32>
module {
  func.func @train(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<8x1xf32> attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %m = stow.reduce_max %y {axes = array<i64: 1>, keepdims = true} : (tensor<8x6xf32>) -> tensor<8x1xf32>
    return %m : tensor<8x1xf32>
  }
  func.func @eval(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<8x1xf32> attributes {stow.role = #stow.role<eval>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %m = stow.reduce_max %y {axes = array<i64: 1>, keepdims = true} : (tensor<8x6xf32>) -> tensor<8x1xf32>
    return %m : tensor<8x1xf32>
  }
}

// -----

// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.slice
// expected-warning @+1 {{no head runs in 2 chunks}}
module {
  func.func @eval(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> (tensor<8x1xf32>, tensor<8x6xf32>) attributes {stow.role = #stow.role<eval>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %m = stow.reduce_max %y {axes = array<i64: 1>, keepdims = true} : (tensor<8x6xf32>) -> tensor<8x1xf32>
    return %m, %y : tensor<8x1xf32>, tensor<8x6xf32>
  }
}

// -----

// Tests what stays whole: a hidden layer whose rows a product reads, a softmax over rows, a product narrower than what it reads, and rows that
// are only the same in number, [3,4] numbers in another order of dimensions.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.slice
// expected-warning @+1 {{no head runs in 2 chunks}}
module {
  func.func @train(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %v: tensor<6x4xf32>, %n: tensor<4x3xf32>, %u: tensor<3x4x4xf32>) -> (tensor<8xf32>, tensor<6xf32>, tensor<8xf32>, tensor<4x6xf32>) attributes {stow.role = #stow.role<train>} {
    %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %h = stow.tanh %p : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %y = stow.matmul %h, %v {transpose_a = false, transpose_b = false} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %a = stow.reduce_sum %y {axes = array<i64: 1>, keepdims = false} : (tensor<8x4xf32>) -> tensor<8xf32>
    %q = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %s = stow.softmax %q {axis = 0 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %b = stow.reduce_max %s {axes = array<i64: 0>, keepdims = false} : (tensor<8x6xf32>) -> tensor<6xf32>
    %r = stow.matmul %x, %n {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %c = stow.reduce_sum %r {axes = array<i64: 1>, keepdims = false} : (tensor<8x3xf32>) -> tensor<8xf32>
    %z = stow.matmul %u, %w {transpose_a = false, transpose_b = false} : (tensor<3x4x4xf32>, tensor<4x6xf32>) -> tensor<3x4x6xf32>
    %d = stow.reduce_sum %z {axes = array<i64: 0>, keepdims = false} : (tensor<3x4x6xf32>) -> tensor<4x6xf32>
    return %a, %b, %c, %d : tensor<8xf32>, tensor<6xf32>, tensor<8xf32>, tensor<4x6xf32>
  }
}
