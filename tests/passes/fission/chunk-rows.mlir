// RUN: stowage-opt %s --stow-chunk-rows=row-chunks=2 --split-input-file --verify-diagnostics | FileCheck %s

// Tests a hidden layer: forward and backward each run in chunks, what the forward made of a chunk is read by that chunk's backward; sums
// over rows are added up, an update that reads one stands behind all chunks.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x2xf32>
// CHECK: %[[X0:.*]] = stow.slice %{{.*}} {sizes = array<i64: 4, 2>, starts = array<i64: 0, 0>} : (tensor<8x2xf32>) -> tensor<4x2xf32>
// CHECK: %[[P0:.*]] = stow.matmul %[[X0]], %{{.*}} -> tensor<4x6xf32>
// CHECK: %[[A0:.*]] = stow.add %[[P0]]
// CHECK: %[[H0:.*]] = stow.tanh %[[A0]]
// CHECK: %[[Y0:.*]] = stow.matmul %[[H0]]
// CHECK: %[[X1:.*]] = stow.slice %{{.*}} {sizes = array<i64: 4, 2>, starts = array<i64: 4, 0>}
// CHECK: %[[H1:.*]] = stow.tanh
// CHECK: %[[Y1:.*]] = stow.matmul %[[H1]]
// CHECK: %[[Y:.*]] = stow.concat %[[Y0]], %[[Y1]] {axis = 0 : i64}
// CHECK: %[[DY:.*]] = stow.exp %{{.*}} {stow.phase = #stow.phase<backward>}
// CHECK: %[[DY0:.*]] = stow.slice %{{.*}} {sizes = array<i64: 4, 2>, starts = array<i64: 0, 0>
// CHECK: %[[DH0:.*]] = stow.matmul %[[DY0]], %{{.*}} -> tensor<4x6xf32>
// CHECK: %[[DA0:.*]] = stow.mul %[[DH0]], %[[H0]]
// CHECK: %[[DX0:.*]] = stow.matmul %[[DA0]], %{{.*}} -> tensor<4x2xf32>
// CHECK: %[[DV0:.*]] = stow.matmul %[[H0]], %{{.*}} transpose_a = true
// CHECK: %[[DW0:.*]] = stow.matmul %{{.*}}, %[[DA0]] {{.*}} transpose_a = true
// CHECK: %[[DB0:.*]] = stow.reduce_sum %[[DA0]] {axes = array<i64: 0>
// CHECK: %[[DA1:.*]] = stow.mul %{{.*}}, %[[H1]]
// CHECK: %[[DV1:.*]] = stow.matmul %[[H1]], %{{.*}} transpose_a = true
// CHECK: %[[DV:.*]] = stow.add %[[DV0]], %[[DV1]]
// CHECK: %[[DB1:.*]] = stow.reduce_sum %[[DA1]]
// CHECK: %[[DB:.*]] = stow.add %[[DB0]], %[[DB1]]
// CHECK: stow.sgd %{{.*}}, %[[DV]]
// CHECK-NOT: tensor<8x6xf32>
// CHECK-NOT: tensor<2x4x6xf32>
func.func @train(%x: tensor<2x4x2xf32>, %w: tensor<2x6xf32>, %b: tensor<6xf32>, %v: tensor<6x2xf32>, %rate: tensor<f32>) -> (tensor<2x4x2xf32>, tensor<6x2xf32>, tensor<2x6xf32>, tensor<6xf32>, tensor<2x4x2xf32>) attributes {stow.role = #stow.role<train>} {
  %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<2x4x2xf32>, tensor<2x6xf32>) -> tensor<2x4x6xf32>
  %a = stow.add %p, %b : (tensor<2x4x6xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
  %h = stow.tanh %a : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = stow.matmul %h, %v {transpose_a = false, transpose_b = false} : (tensor<2x4x6xf32>, tensor<6x2xf32>) -> tensor<2x4x2xf32>
  %dy = stow.exp %y {stow.phase = #stow.phase<backward>} : (tensor<2x4x2xf32>) -> tensor<2x4x2xf32>
  %h2 = stow.reshape %h {stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %dy2 = stow.reshape %dy {stow.phase = #stow.phase<backward>} : (tensor<2x4x2xf32>) -> tensor<8x2xf32>
  %dv = stow.matmul %h2, %dy2 {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<6x2xf32>
  %dh = stow.matmul %dy, %v {transpose_a = false, transpose_b = true, stow.phase = #stow.phase<backward>} : (tensor<2x4x2xf32>, tensor<6x2xf32>) -> tensor<2x4x6xf32>
  %v1 = stow.sgd %v, %dv, %rate {momentum = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64, stow.phase = #stow.phase<update>} : (tensor<6x2xf32>, tensor<6x2xf32>, tensor<f32>) -> tensor<6x2xf32>
  %da = stow.mul %dh, %h {stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %db = stow.reduce_sum %da {axes = array<i64: 0, 1>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>) -> tensor<6xf32>
  %x2 = stow.reshape %x {stow.phase = #stow.phase<backward>} : (tensor<2x4x2xf32>) -> tensor<8x2xf32>
  %da2 = stow.reshape %da {stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %dw = stow.matmul %x2, %da2 {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x2xf32>, tensor<8x6xf32>) -> tensor<2x6xf32>
  %dx = stow.matmul %da, %w {transpose_a = false, transpose_b = true, stow.phase = #stow.phase<backward>} : (tensor<2x4x6xf32>, tensor<2x6xf32>) -> tensor<2x4x2xf32>
  return %y, %v1, %dw, %db, %dx : tensor<2x4x2xf32>, tensor<6x2xf32>, tensor<2x6xf32>, tensor<6xf32>, tensor<2x4x2xf32>
}

// -----

// Tests convolutions up to the pooling whose result is narrower, by images; what else reads an inner value
// has it joined.
// CHECK-LABEL: func.func @train
// CHECK: %[[X0:.*]] = stow.slice %{{.*}} {sizes = array<i64: 1, 1, 4, 4>, starts = array<i64: 0, 0, 0, 0>}
// CHECK: %[[C0:.*]] = stow.conv2d %[[X0]], {{.*}} -> tensor<1x4x4x4xf32>
// CHECK: %[[R0:.*]] = stow.relu %[[C0]]
// CHECK: %[[D0:.*]] = stow.conv2d %[[R0]]
// CHECK: %[[Y0:.*]], %[[S0:.*]] = stow.max_pool_training %[[D0]]
// CHECK: %[[D1:.*]] = stow.conv2d %{{.*}} -> tensor<1x4x4x4xf32>
// CHECK: %[[D:.*]] = stow.concat %[[D0]], %{{.*}} {axis = 0 : i64} : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<2x4x4x4xf32>
// CHECK: %[[Y:.*]] = stow.concat %[[Y0]]
// CHECK: %[[DD0:.*]] = stow.max_pool_grad %{{.*}}, %[[S0]]
// CHECK: %[[DR0:.*]] = stow.conv2d_grad_input %[[DD0]]
// CHECK: %[[DC0:.*]] = stow.relu_grad %[[DR0]], %[[R0]]
// CHECK: %[[DV0:.*]] = stow.conv2d_grad_weight %[[R0]], %[[DD0]]
// CHECK: %[[DB0:.*]] = stow.reduce_sum %[[DC0]] {axes = array<i64: 0, 2, 3>
// CHECK: %[[DV1:.*]] = stow.conv2d_grad_weight
// CHECK: stow.add %[[DV0]], %[[DV1]]
// CHECK: stow.add %[[DB0]]
func.func @train(%x: tensor<2x1x4x4xf32>, %w: tensor<4x1x3x3xf32>, %v: tensor<4x4x1x1xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x2x2xf32>, tensor<4x4x1x1xf32>, tensor<4xf32>) attributes {stow.role = #stow.role<train>} {
  %c = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x1x4x4xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x4x4xf32>
  %r = stow.relu %c : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %d = stow.conv2d %r, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  %y, %s = stow.max_pool_training %d {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x4x4xf32>) -> (tensor<2x4x2x2xf32>, tensor<2x4x2x2xi8>)
  %dy = stow.exp %y {stow.phase = #stow.phase<backward>} : (tensor<2x4x2x2xf32>) -> tensor<2x4x2x2xf32>
  %dd = stow.max_pool_grad %dy, %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, stow.phase = #stow.phase<backward>} : (tensor<2x4x2x2xf32>, tensor<2x4x2x2xi8>) -> tensor<2x4x4x4xf32>
  %dv = stow.conv2d_grad_weight %r, %dd {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<4x4x1x1xf32>
  %dr = stow.conv2d_grad_input %dd, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  %dc = stow.relu_grad %dr, %r {stow.phase = #stow.phase<backward>} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %db = stow.reduce_sum %dc {axes = array<i64: 0, 2, 3>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<2x4x4x4xf32>) -> tensor<4xf32>
  return %d, %y, %dv, %db : tensor<2x4x4x4xf32>, tensor<2x4x2x2xf32>, tensor<4x4x1x1xf32>, tensor<4xf32>
}

// -----

// Tests an update whose gradient is known a stage before the last product that reads the old parameter: it waits for
// all chunks of that product.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<6x2xf32>
// CHECK: %[[DV:.*]] = stow.add %{{.*}} : (tensor<6x2xf32>, tensor<6x2xf32>)
// CHECK-NOT: stow.sgd
// CHECK: stow.matmul %{{.*}}, %[[V]] {{.*}} -> tensor<4x6xf32>
// CHECK-NOT: stow.sgd
// CHECK: stow.matmul %{{.*}}, %[[V]] {{.*}} -> tensor<4x6xf32>
// CHECK: stow.sgd %[[V]], %[[DV]]
func.func @train(%x: tensor<8x2xf32>, %w: tensor<2x6xf32>, %v: tensor<6x2xf32>, %rate: tensor<f32>) -> (tensor<8x2xf32>, tensor<6x2xf32>, tensor<2x6xf32>) attributes {stow.role = #stow.role<train>} {
  %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x2xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
  %h = stow.tanh %p : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = stow.matmul %h, %v {transpose_a = false, transpose_b = false} : (tensor<8x6xf32>, tensor<6x2xf32>) -> tensor<8x2xf32>
  %dy = stow.exp %y {stow.phase = #stow.phase<backward>} : (tensor<8x2xf32>) -> tensor<8x2xf32>
  %dv = stow.matmul %h, %dy {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<6x2xf32>
  %dh = stow.matmul %dy, %v {transpose_a = false, transpose_b = true, stow.phase = #stow.phase<backward>} : (tensor<8x2xf32>, tensor<6x2xf32>) -> tensor<8x6xf32>
  %v1 = stow.sgd %v, %dv, %rate {momentum = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64, stow.phase = #stow.phase<update>} : (tensor<6x2xf32>, tensor<6x2xf32>, tensor<f32>) -> tensor<6x2xf32>
  %s = stow.reduce_sum %dv {axes = array<i64: 0, 1>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<6x2xf32>) -> tensor<f32>
  %dp = stow.mul %dh, %h {stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %da = stow.mul %dp, %s {stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  %dw = stow.matmul %x, %da {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x2xf32>, tensor<8x6xf32>) -> tensor<2x6xf32>
  return %y, %v1, %dw : tensor<8x2xf32>, tensor<6x2xf32>, tensor<2x6xf32>
}

// -----

// Tests a dropout, which numbers its elements: what it reads and makes stays whole, and nothing is left to cut.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.slice
// expected-warning @+1 {{nothing but a head runs in 2 chunks of rows}}
module {
  func.func @train(%x: tensor<8x2xf32>, %w: tensor<2x6xf32>, %v: tensor<6x2xf32>, %seed: tensor<i64>) -> tensor<8x2xf32> attributes {stow.role = #stow.role<train>} {
    %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x2xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %h = stow.dropout_training %p, %seed {ratio = 0.5 : f64, stream = 0 : i64} : (tensor<8x6xf32>, tensor<i64>) -> tensor<8x6xf32>
    %y = stow.matmul %h, %v {transpose_a = false, transpose_b = false} : (tensor<8x6xf32>, tensor<6x2xf32>) -> tensor<8x2xf32>
    return %y : tensor<8x2xf32>
  }
}

// -----

// Tests weights that outweigh the rows: sums over chunks would be larger than what chunks save.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.slice
// expected-warning @+1 {{nothing but a head runs in 2 chunks of rows}}
module {
  func.func @train(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>, %v: tensor<6x4xf32>) -> (tensor<2x4xf32>, tensor<6x4xf32>) attributes {stow.role = #stow.role<train>} {
    %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
    %h = stow.tanh %p : (tensor<2x6xf32>) -> tensor<2x6xf32>
    %y = stow.matmul %h, %v {transpose_a = false, transpose_b = false} : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
    %dv = stow.matmul %h, %y {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<2x6xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
    return %y, %dv : tensor<2x4xf32>, tensor<6x4xf32>
  }
}

// -----

// Tests a parameter as wide as the rows: its update stays whole and reads the joined gradient.
// CHECK-LABEL: func.func @train
// CHECK: %[[DB:.*]] = stow.concat %{{.*}} {axis = 0 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x6xf32>, tensor<4x6xf32>)
// CHECK-NEXT: stow.sgd %{{.*}}, %[[DB]], %{{.*}} {{.*}}stow.phase = #stow.phase<update>
// CHECK-NOT: stow.sgd
func.func @train(%x: tensor<8x2xf32>, %w: tensor<2x9xf32>, %b: tensor<8x6xf32>, %v: tensor<9x6xf32>, %u: tensor<6x2xf32>, %rate: tensor<f32>) -> (tensor<8x2xf32>, tensor<8x6xf32>) attributes {stow.role = #stow.role<train>} {
  %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x2xf32>, tensor<2x9xf32>) -> tensor<8x9xf32>
  %q = stow.matmul %p, %v {transpose_a = false, transpose_b = false} : (tensor<8x9xf32>, tensor<9x6xf32>) -> tensor<8x6xf32>
  %a = stow.add %q, %b : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %h = stow.tanh %a : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = stow.matmul %h, %u {transpose_a = false, transpose_b = false} : (tensor<8x6xf32>, tensor<6x2xf32>) -> tensor<8x2xf32>
  %dh = stow.matmul %y, %u {transpose_a = false, transpose_b = true, stow.phase = #stow.phase<backward>} : (tensor<8x2xf32>, tensor<6x2xf32>) -> tensor<8x6xf32>
  %da = stow.mul %dh, %h {stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %b1 = stow.sgd %b, %da, %rate {momentum = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64, stow.phase = #stow.phase<update>} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  return %y, %b1 : tensor<8x2xf32>, tensor<8x6xf32>
}
