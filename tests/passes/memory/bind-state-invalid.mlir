// RUN: stowage-opt %s --stow-bind-state --split-input-file --verify-diagnostics

// Tests that a state result needs an argument.
// expected-error @+1 {{state result "v" names no argument}}
func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4xf32> {stow.state = "v"}) attributes {stow.role = #stow.role<train>} {
  return %w : tensor<4xf32>
}

// -----

// Tests that nothing may read state behind an update that is already in place.
func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4xf32> {stow.state = "w"}, tensor<f32> {stow.name = "s"}) attributes {stow.role = #stow.role<train>} {
  %w1 = stow.map %w {updates = array<i64: 0, 0>} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32):
    stow.yield %a : f32
  }
  // expected-error @+1 {{reads the old value of "w" after its update}}
  %s = stow.reduce_sum %w {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %w1, %s : tensor<4xf32>, tensor<f32>
}
