// RUN: stowage-opt %s --stow-autodiff=scale-loss --stow-reduce-over-ranks=ranks=2 --stow-attach-optimizer="optimizer=adam shard-percent=100" | FileCheck %s

// Whether all gradients are finite is asked of their whole sums over the ranks, so that all skip the same steps; shards are taken of those.
// CHECK-LABEL: func.func @train(
// CHECK: %[[SUM:.*]] = stow.all_reduce %{{.*}} : (tensor<12x4xf32>) -> tensor<12x4xf32>
// CHECK: %[[MEAN:.*]] = stow.mul %[[SUM]]
// CHECK: stow.shard %[[MEAN]] {{.*}} -> tensor<24xf32>
// CHECK: stow.reduce_sum_squares %[[MEAN]]
// CHECK-NOT: stow.reduce_scatter
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<12x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<8x4xf32>, tensor<12x4xf32>) -> tensor<8x12xf32>
    %l = stow.reduce_mean %y {axes = array<i64: 0, 1>, keepdims = false} : (tensor<8x12xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
