// RUN: stowage-opt %s --stow-autodiff --split-input-file --verify-diagnostics

// Tests that an op without gradient on the loss's path is named, with the user's name where known,
// and that all of them are reported.
func.func @train(%w: tensor<1x1x4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  // expected-error @+1 {{'stow.dropout' has no gradient, but the loss depends on a parameter through it}}
  %y = stow.dropout %w {ratio = 0.5 : f64} : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  // expected-error @unknown {{"/features/pool" (stow.max_pool) has no gradient}}
  %p = stow.max_pool %w {kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>,
      pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x1x4x4xf32>) -> tensor<1x1x1x1xf32> loc("/features/pool")
  %s = stow.add %y, %p : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %l = stow.reduce_sum %s {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<1x1x4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Tests that a parameter off the loss's path is reported and gets no gradient.
// expected-warning @+2 {{parameter "unused" does not influence the loss; it stays as it is}}
func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
    %u: tensor<4xf32> {stow.name = "unused", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %l = stow.reduce_sum %w {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Tests that the loss must be there.
// expected-error @+1 {{expects a scalar "loss" as its first result; run stow-attach-loss first}}
func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4xf32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  return %w : tensor<4xf32>
}

// -----

// Tests that there must be a training graph.
// expected-error @+1 {{expects a function of role train with a body; run stow-split-train-eval first}}
module {
}
