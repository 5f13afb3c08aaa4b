// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=adamw:lr=1e-3 shard-percent=100" --canonicalize 2>/dev/null | FileCheck %s
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=adamw:lr=1e-3 shard-percent=50" --canonicalize 2>/dev/null | FileCheck %s --check-prefix=HALF
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=sgd:momentum=0.9 shard-percent=100 clip-norm=1" --canonicalize 2>/dev/null | FileCheck %s --check-prefix=CLIP
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=sgd shard-percent=100" --canonicalize 2>/dev/null | FileCheck %s --check-prefix=NONE
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=adafactor shard-percent=100" --canonicalize 2>/dev/null | FileCheck %s --check-prefix=NONE

// Tests that the sum of a gradient over the ranks is made for a shard alone, scaled, and used for that shard of the parameter; that a bias
// of one line keeps its state whole, as does a convolution's weight.
// CHECK: module attributes {{.*}}stow.notes = ["shard-state: the optimizer's state of 2 of 4 parameters lies in shards, on each of 2 devices {{[0-9,]+}} bytes in place of {{[0-9,]+}}"]
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<9x74xf32> {{{[^}]*}}stow.name = "w"}
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<333xf32> {{{[^}]*}}stow.name = "w.exp_avg", stow.shard_of = tensor<9x74xf32>}
// CHECK-SAME: tensor<333xf32> {{{[^}]*}}stow.name = "w.exp_avg_sq", stow.shard_of = tensor<9x74xf32>}
// CHECK-SAME: tensor<50xf32> {{{[^}]*}}stow.name = "v.exp_avg", stow.shard_of = tensor<100xf32>}
// CHECK-SAME: tensor<4xf32> {{{[^}]*}}stow.name = "b.exp_avg"}
// CHECK-SAME: tensor<8x8x3x3xf32> {{{[^}]*}}stow.name = "k.exp_avg"}
// CHECK: %[[S:.*]] = stow.reduce_scatter %{{.*}} {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<9x74xf32>) -> tensor<333xf32>
// CHECK: %[[G:.*]] = stow.mul %[[S]], %{{.*}} {stow.phase = #stow.phase<backward>} : (tensor<333xf32>, tensor<f32>)
// CHECK: %[[W:.*]] = stow.shard %[[P]] {ranks = 2 : i64, stow.phase = #stow.phase<backward>}
// CHECK: %[[N:.*]], %[[M1:.*]], %{{.*}} = stow.adam %[[W]], %[[G]], %{{.*}}, %{{.*}}, %[[M]]
// CHECK: %[[NEW:.*]] = stow.all_gather %[[N]], %[[P]] {ranks = 2 : i64, stow.phase = #stow.phase<update>}
// CHECK-COUNT-2: stow.all_reduce
// CHECK: return %[[NEW]], %[[M1]]

// Tests that the largest come first.
// HALF: lies in shards
// HALF-COUNT-1: stow.reduce_scatter %{{.*}} : (tensor<9x74xf32>)
// HALF-NOT: stow.reduce_scatter

// Tests that the norm is that of whole sums, from which shards are then taken.
// CLIP-NOT: stow.reduce_scatter
// CLIP: %[[SUM:.*]] = stow.all_reduce %{{.*}} : (tensor<9x74xf32>) -> tensor<9x74xf32>
// CLIP: %[[SCALED:.*]] = stow.mul %[[SUM]]
// CLIP: %[[G:.*]] = stow.shard %[[SCALED]]
// CLIP: stow.reduce_sum_squares %[[SCALED]]
// CLIP: stow.mul %[[G]]
// CLIP-NOT: stow.reduce_scatter

// Tests updates that keep nothing, or read all of a parameter.
// NONE-NOT: stow.reduce_scatter
// NONE-NOT: stow.shard
module attributes {stow.devices = 2 : i64} {
  func.func @train(%x: tensor<4x9xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %i: tensor<1x8x6x6xf32> {stow.name = "i", stow.kind = #stow.kind<input>},
      %w: tensor<9x74xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %v: tensor<100xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>},
      %b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>}, %k: tensor<8x8x3x3xf32> {stow.name = "k", stow.kind = #stow.kind<parameter>})
      -> (tensor<9x74xf32> {stow.name = "w.grad", stow.gradient_of = "w"}, tensor<100xf32> {stow.name = "v.grad", stow.gradient_of = "v"},
          tensor<4xf32> {stow.name = "b.grad", stow.gradient_of = "b"}, tensor<8x8x3x3xf32> {stow.name = "k.grad", stow.gradient_of = "k"}) attributes {stow.role = #stow.role<train>} {
    %half = stow.constant dense<5.000000e-01> : tensor<f32>
    %y = stow.conv2d %i, %k {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x6x6xf32>
    %dk = stow.conv2d_grad_weight %i, %y {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>}
        : (tensor<1x8x6x6xf32>, tensor<1x8x6x6xf32>) -> tensor<8x8x3x3xf32>
    %dw = stow.exp %w {stow.phase = #stow.phase<backward>} : (tensor<9x74xf32>) -> tensor<9x74xf32>
    %dv = stow.exp %v {stow.phase = #stow.phase<backward>} : (tensor<100xf32>) -> tensor<100xf32>
    %db = stow.exp %b {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %rw = stow.all_reduce %dw {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<9x74xf32>) -> tensor<9x74xf32>
    %gw = stow.mul %rw, %half {stow.phase = #stow.phase<backward>} : (tensor<9x74xf32>, tensor<f32>) -> tensor<9x74xf32>
    %gv = stow.all_reduce %dv {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<100xf32>) -> tensor<100xf32>
    %gb = stow.all_reduce %db {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %gk = stow.all_reduce %dk {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x8x3x3xf32>) -> tensor<8x8x3x3xf32>
    return %gw, %gv, %gb, %gk : tensor<9x74xf32>, tensor<100xf32>, tensor<4xf32>, tensor<8x8x3x3xf32>
  }
}
