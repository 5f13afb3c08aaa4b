// RUN: stowage-opt %s --stow-split-train-eval --split-input-file --verify-diagnostics

// Tests that a normalization whose statistics cannot be updated is refused.
func.func @model(%x: tensor<1x6xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %s: tensor<6xf32> {stow.name = "scale", stow.kind = #stow.kind<parameter>}) -> (tensor<1x6xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
  // expected-error @+1 {{expects its running statistics to be arguments of kind "statistic"}}
  %0 = stow.batch_norm %x, %s, %s, %s, %s {epsilon = 1.0e-5 : f64, momentum = 0.25 : f64}
      : (tensor<1x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6xf32>
  return %0 : tensor<1x6xf32>
}

// -----

// Tests that there must be a model.
// expected-error @+1 {{expects a function of role model with a body; import a model first}}
module {
}

// -----

// Tests that a module is split once only.
// expected-error @+1 {{has a function @train beside the model; expects a module of form "model"}}
module {
  func.func @model() attributes {stow.role = #stow.role<model>} { return }
  func.func @train() attributes {stow.role = #stow.role<train>} { return }
}

// -----

// Tests that a statistic has one next value.
// expected-error @+1 {{the statistic "m" follows a batch normalization and gets another next value from the model}}
func.func @model(%x: tensor<1x6xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %s: tensor<6xf32> {stow.name = "s", stow.kind = #stow.kind<parameter>},
    %m: tensor<6xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>})
    -> (tensor<1x6xf32> {stow.name = "y"}, tensor<6xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<model>} {
  %0 = stow.batch_norm %x, %s, %s, %m, %m {epsilon = 1.0e-5 : f64, momentum = 0.25 : f64}
      : (tensor<1x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6xf32>
  return %0, %s : tensor<1x6xf32>, tensor<6xf32>
}
