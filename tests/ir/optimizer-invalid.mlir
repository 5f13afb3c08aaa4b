// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// sgd C1: momentum operand and result go together.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{expects a velocity operand and result, or neither}}
  %0 = stow.sgd %p, %p, %lr, %p {momentum = 9.000000e-01 : f64, nesterov = true, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// sgd C2: one type.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>, %g: tensor<5xf32>) {
  // expected-error @+1 {{expects every tensor to have the parameter's type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0:2 = stow.sgd %p, %g, %lr, %p {momentum = 9.000000e-01 : f64, nesterov = true, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<5xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// sgd C3: nesterov needs momentum.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{expects a velocity for nesterov}}
  %0 = stow.sgd %p, %p, %lr {momentum = 9.000000e-01 : f64, nesterov = true, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

// adam C1: one type.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>, %t: tensor<i64>, %m: tensor<5xf32>) {
  // expected-error @+1 {{expects every tensor to have the parameter's type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0:3 = stow.adam %p, %p, %lr, %t, %m, %p {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, decoupled = true, epsilon = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<5xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
