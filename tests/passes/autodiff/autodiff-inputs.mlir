// RUN: stowage-opt %s --stow-autodiff="input-gradients=x" | FileCheck %s
// RUN: not stowage-opt %s --stow-autodiff="input-gradients=z" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not stowage-opt %s --stow-autodiff="input-gradients=t" 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not stowage-opt %s --stow-autodiff="input-gradients=u" 2>&1 | FileCheck %s --check-prefix=UNUSED

// UNKNOWN: has no data input "z" whose gradient could be taken; there are "x", "u", "t"
// WHOLE: input "t" is 'tensor<4xi64>'; only real numbers have a gradient
// UNUSED: input "u" does not influence the loss; it has no gradient

// Tests that the gradient of a chosen input is a named result of its own, before the parameters'.
// CHECK: -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.name = "x.grad"}, tensor<4xf32> {stow.gradient_of = "w", stow.name = "w.grad"})
func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %u: tensor<4xf32> {stow.name = "u", stow.kind = #stow.kind<input>}, %t: tensor<4xi64> {stow.name = "t", stow.kind = #stow.kind<input>},
    %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
