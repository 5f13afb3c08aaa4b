// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// Initial values: a known distribution.
// expected-error @+1 {{unknown distribution "gamma"; expected constant, normal or uniform}}
func.func @case(%a: tensor<4xf32> {stow.init = #stow.init<"gamma", 0.0, 1.0>}) { return }

// -----

// Initial values: a standard deviation.
// expected-error @+1 {{standard deviation -1.0}}
func.func @case(%a: tensor<4xf32> {stow.init = #stow.init<"normal", 0.0, -1.0>}) { return }

// -----

// Initial values: a range.
// expected-error @+1 {{is empty}}
func.func @case(%a: tensor<4xf32> {stow.init = #stow.init<"uniform", 1.0, 0.0>}) { return }

// -----

// Words: those of the enum.
// expected-error @below {{expected one of [input, target, parameter, statistic, optimizer, learning_rate, step, seed, accumulator, frozen]}}
// expected-error @below {{failed to parse Stow_KindAttr parameter 'value'}}
func.func @case(%a: tensor<4xf32> {stow.kind = #stow.kind<weight>}) { return }

// -----

// expected-error @below {{expected one of [model, train, eval, accumulate, commit, measure]}}
// expected-error @below {{failed to parse Stow_RoleAttr parameter 'value'}}
func.func @case() attributes {stow.role = #stow.role<predict>} { return }

// -----

func.func @case(%a: tensor<f32>) {
  // expected-error @below {{expected one of [forward, backward, update]}}
  // expected-error @below {{failed to parse Stow_PhaseAttr parameter 'value'}}
  %0 = stow.neg %a {stow.phase = #stow.phase<sideways>} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// Words: not their text, which earlier releases wrote.
// expected-error @below {{'stow.kind' of argument 1 expects a word of #stow.kind (input, target, parameter, statistic, optimizer, learning_rate, step, seed, accumulator, frozen), found "parameter"; write stow.kind = #stow.kind<parameter>}}
func.func @case(%a: tensor<f32>, %b: tensor<4xf32> {stow.kind = "parameter"}) { return }

// -----

// expected-error @below {{'stow.role' expects a word of #stow.role (model, train, eval, accumulate, commit, measure), found "predict"; write stow.role = #stow.role<model>}}
func.func @case() attributes {stow.role = "predict"} { return }

// -----

func.func @case(%a: tensor<f32>) {
  // expected-error @below {{'stow.phase' expects a word of #stow.phase (forward, backward, update), found "backward"; write stow.phase = #stow.phase<backward>}}
  %0 = stow.neg %a {stow.phase = "backward"} : (tensor<f32>) -> tensor<f32>
  return
}
