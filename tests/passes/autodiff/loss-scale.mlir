// RUN: stowage-opt %s --stow-autodiff=scale-loss --stow-attach-optimizer="optimizer=adam" | FileCheck %s
// RUN: stowage-opt %s --stow-autodiff=scale-loss --stow-attach-optimizer="optimizer=sgd loss-scale=delayed" | FileCheck %s --check-prefix=DELAYED
// RUN: stowage-opt %s --stow-autodiff=scale-loss --stow-attach-optimizer="clip-norm=1" | FileCheck %s --check-prefix=CLIP
// RUN: not stowage-opt %s --stow-autodiff=scale-loss --stow-attach-optimizer="loss-scale=static" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: loss-scale: expected dynamic or delayed, found "static"

// The gradient starts as the scale. Both updates wait for the sum of all squares; a rate of NaN and a
// step of 0 skip them, steps that were skipped do not count, and the scale follows.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {stow.init = #stow.init<"constant", 6.553600e+04, 0.000000e+00>, stow.kind = #stow.kind<optimizer>, stow.name = "loss_scale"}
// CHECK-SAME: %[[GOOD:[a-z0-9]+]]: tensor<f32> {{{[^}]*}}stow.name = "loss_scale.good_steps"}
// CHECK-SAME: %[[SKIPPED:[a-z0-9]+]]: tensor<f32> {{{[^}]*}}stow.name = "loss_scale.skipped_steps"}
// CHECK: %[[INVERSE:.*]] = stow.reciprocal %[[SCALE]]
// CHECK: stow.reduce_sum_squares
// CHECK: stow.reduce_sum_squares
// CHECK: %[[FINITE:.*]] = stow.compare %{{.*}}, %{{.*}} {predicate = "lt"
// CHECK: %[[RATE:.*]] = stow.select %[[FINITE]], %{{.*}}, %{{.*}} {{.*}} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[APPLIED:.*]] = stow.sub %{{.*}}, %{{.*}} : (tensor<i64>, tensor<i64>)
// CHECK: %[[STEP:.*]] = stow.select %[[FINITE]], %[[APPLIED]]
// CHECK: stow.adam %{{.*}}, %{{.*}}, %[[RATE]], %[[STEP]], {{.*}}skippable
// CHECK: stow.adam %{{.*}}, %{{.*}}, %[[RATE]], %[[STEP]], {{.*}}skippable
// CHECK: stow.select %[[FINITE]], %[[SKIPPED]], %{{.*}}
// CHECK: return

// Each update stands where it would stand without scaling and has a rate of its own.
// DELAYED-LABEL: func.func @train(
// DELAYED: %[[SQUARES:.*]] = stow.reduce_sum_squares
// DELAYED: %[[FINITE:.*]] = stow.compare %[[SQUARES]]
// DELAYED: %[[RATE:.*]] = stow.select %[[FINITE]]
// DELAYED: stow.sgd %{{.*}}, %{{.*}}, %[[RATE]] {{.*}}skippable
// DELAYED: %[[SQUARES2:.*]] = stow.reduce_sum_squares
// DELAYED: %[[FINITE2:.*]] = stow.compare %[[SQUARES2]]
// DELAYED: stow.sgd

// The norm is that of the gradients without the scale, and their squares are summed once.
// CLIP-LABEL: func.func @train(
// CLIP-COUNT-2: stow.reduce_sum_squares
// CLIP-NOT: stow.reduce_sum_squares
// CLIP: stow.sqrt
module attributes {stow.form = "model"} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %v: tensor<4xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %0 = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = stow.mul %0, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %loss = stow.reduce_sum %1 {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
