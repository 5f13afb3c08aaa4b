// RUN: stowage-opt %s --stow-send-states=kinds=parameters | FileCheck %s

// What is read behind its update, also by a view, stays where stow-bind-state says so.
// CHECK-LABEL: @train(
// CHECK-NOT: stow.slow_state
// CHECK-NOT: stow.copy_in
module {
  func.func @train(%w: tensor<4096xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<4096xf32> {stow.state = "w"}, tensor<64x64xf32> {stow.name = "z"})
      attributes {stow.role = #stow.role<train>} {
    %v = stow.reshape %w : (tensor<4096xf32>) -> tensor<64x64xf32>
    %w1 = stow.map %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0>} : (tensor<4096xf32>) -> tensor<4096xf32> {
    ^bb0(%p: f32):
      %0 = arith.addf %p, %p : f32
      stow.yield %0 : f32
    }
    %z = stow.map %v {stow.phase = #stow.phase<update>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    ^bb0(%p: f32):
      %0 = arith.mulf %p, %p : f32
      stow.yield %0 : f32
    }
    return %w1, %z : tensor<4096xf32>, tensor<64x64xf32>
  }
}
