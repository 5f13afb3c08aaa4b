// RUN: stowage-opt %s --stow-autodiff=scale-loss --stow-attach-optimizer | FileCheck %s

// Where no parameter influences the loss, the factor stays as it is.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {{{[^}]*}}stow.name = "loss_scale"}
// CHECK-SAME: %[[GOOD:[a-z0-9]+]]: tensor<f32> {{{[^}]*}}stow.name = "loss_scale.good_steps"}
// CHECK-SAME: %[[SKIPPED:[a-z0-9]+]]: tensor<f32> {{{[^}]*}}stow.name = "loss_scale.skipped_steps"}
// CHECK: return {{.*}}%[[SCALE]], %[[GOOD]], %[[SKIPPED]]
module attributes {stow.form = "model"} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %0 = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = stow.sign %0 : (tensor<4xf32>) -> tensor<4xf32>
    %loss = stow.reduce_sum %1 {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
