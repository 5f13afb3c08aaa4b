// RUN: stowage-opt %s --stow-shard-parameters | FileCheck %s
// RUN: stowage-opt %s --stow-shard-parameters="percent=50" | FileCheck %s --check-prefix=HALF
// RUN: not stowage-opt %s --stow-shard-parameters="percent=101" 2>&1 | FileCheck %s --check-prefix=PERCENT

// PERCENT: percent is 101; expected 0 to 100

// Tests that a parameter whose state lies in shards lies in shards itself, in both graphs; that one op puts it together in front of its first
// reader, and that the update reads and writes the shard. What has its state whole stays, as does its gradient's sum.
// CHECK: module attributes {{.*}}stow.notes = ["known", "shard-state: 2 parameters lie in shards, on each of 2 devices 80 bytes in place of 160, and are put together where they are read"]
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<16xf32> {{{[^}]*}}stow.name = "w", stow.shard_of = tensor<8x4xf32>}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<4xf32> {{{[^}]*}}stow.name = "v", stow.shard_of = tensor<4x2xf32>}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<2xf32> {{{[^}]*}}stow.name = "b"}
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<16xf32> {stow.state = "w"}, tensor<4xf32> {stow.state = "v"}, tensor<2xf32> {stow.state = "b"})
// CHECK: %[[WHOLE:.*]] = stow.unshard %[[W]] {ranks = 2 : i64} : (tensor<16xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: stow.matmul %[[X]], %[[WHOLE]]
// CHECK: %[[WHOLE2:.*]] = stow.unshard %[[V]] {ranks = 2 : i64} : (tensor<4xf32>) -> tensor<4x2xf32>
// CHECK: stow.matmul %{{.*}}, %[[WHOLE2]] {stow.phase = #stow.phase<backward>
// CHECK-NOT: stow.unshard
// CHECK-NOT: stow.shard
// CHECK: %[[G:.*]] = stow.reduce_scatter
// CHECK-NEXT: %[[W1:.*]] = stow.sgd %[[W]], %[[G]]
// CHECK-NOT: stow.all_gather
// CHECK: return %{{.*}}, %[[W1]]
// CHECK-LABEL: func.func @eval
// CHECK-SAME: tensor<16xf32> {{{[^}]*}}stow.shard_of = tensor<8x4xf32>}
// CHECK: stow.unshard
// CHECK-NEXT: stow.matmul

// Tests that the largest come first.
// HALF: 1 parameters lie in shards
// HALF-LABEL: func.func @train
// HALF-COUNT-1: stow.unshard
// HALF-NOT: stow.unshard
// HALF: stow.all_gather %{{.*}} : (tensor<4xf32>, tensor<4x2xf32>)
module attributes {stow.form = "step", stow.devices = 2 : i64, stow.notes = ["known"]} {
  func.func @train(%x: tensor<4x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<8x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %v: tensor<4x2xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>},
      %b: tensor<2xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>},
      %lr: tensor<f32> {stow.name = "learning_rate", stow.kind = #stow.kind<learning_rate>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<8x4xf32> {stow.state = "w"}, tensor<4x2xf32> {stow.state = "v"}, tensor<2xf32> {stow.state = "b"}) attributes {stow.role = #stow.role<train>} {
    %h = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %z = stow.matmul %h, %v {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %y = stow.add %z, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    %p = stow.reduce_sum %y {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x2xf32>) -> tensor<f32>
    %l = stow.all_reduce %p {ranks = 2 : i64} : (tensor<f32>) -> tensor<f32>
    %dh = stow.matmul %y, %v {transpose_a = false, transpose_b = true, stow.phase = #stow.phase<backward>} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
    %dv = stow.matmul %h, %y {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %dw = stow.matmul %x, %dh {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %gw = stow.reduce_scatter %dw {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x4xf32>) -> tensor<16xf32>
    %sw = stow.shard %w {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x4xf32>) -> tensor<16xf32>
    %nw = stow.sgd %sw, %gw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<16xf32>, tensor<16xf32>, tensor<f32>) -> tensor<16xf32>
    %w1 = stow.all_gather %nw, %w {ranks = 2 : i64, stow.phase = #stow.phase<update>} : (tensor<16xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %gv = stow.reduce_scatter %dv {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x2xf32>) -> tensor<4xf32>
    %sv = stow.shard %v {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x2xf32>) -> tensor<4xf32>
    %nv = stow.sgd %sv, %gv, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %v1 = stow.all_gather %nv, %v {ranks = 2 : i64, stow.phase = #stow.phase<update>} : (tensor<4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %db = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<4x2xf32>) -> tensor<2xf32>
    %gb = stow.all_reduce %db {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<2xf32>) -> tensor<2xf32>
    %b1 = stow.sgd %b, %gb, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %l, %w1, %v1, %b1 : tensor<f32>, tensor<8x4xf32>, tensor<4x2xf32>, tensor<2xf32>
  }
  func.func @eval(%x: tensor<4x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<8x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}
