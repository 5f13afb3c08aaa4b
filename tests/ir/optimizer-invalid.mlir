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

// -----

// adam C2: the largest moment's operand and result go together.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error @+1 {{expects a largest moment operand and result, or neither}}
  %0:3 = stow.adam %p, %p, %lr, %t, %p, %p, %p {beta1 = 0.9 : f64, beta2 = 0.999 : f64, decoupled = true, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// rmsprop C1: as many states as the settings say.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{expects 2 states, found 1 operands and 1 results}}
  %0:2 = stow.rmsprop %p, %p, %lr, %p {alpha = 0.99 : f64, centered = true, epsilon = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// rmsprop C2: one type.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>, %v: tensor<5xf32>) {
  // expected-error @+1 {{expects every tensor to have the parameter's type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0:2 = stow.rmsprop %p, %p, %lr, %v {alpha = 0.99 : f64, centered = false, epsilon = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// adagrad C1: one type.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>, %t: tensor<i64>, %s: tensor<5xf32>) {
  // expected-error @+1 {{expects every tensor to have the parameter's type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0:2 = stow.adagrad %p, %p, %lr, %t, %s {epsilon = 1.0e-10 : f64, lr_decay = 0.0 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<5xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// lion C1: one type.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>, %m: tensor<5xf32>) {
  // expected-error @+1 {{expects every tensor to have the parameter's type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0:2 = stow.lion %p, %p, %lr, %m {beta1 = 0.9 : f64, beta2 = 0.99 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// moving_average C1: one type.
func.func @case(%v: tensor<4xf32>, %x: tensor<5xf32>, %t: tensor<i64>) {
  // expected-error @+1 {{expects every tensor to have the average's type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0 = stow.moving_average %v, %x, %t {exponent = -0.8 : f64} : (tensor<4xf32>, tensor<5xf32>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

// moving_average C2: the weight of new values does not grow.
func.func @case(%v: tensor<4xf32>, %t: tensor<i64>) {
  // expected-error @+1 {{expects an exponent of at most 0}}
  %0 = stow.moving_average %v, %v, %t {exponent = 0.5 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

// adafactor C1: one type.
func.func @case(%p: tensor<4xf32>, %u: tensor<5xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error @+1 {{expects every tensor to have the parameter's type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0 = stow.adafactor %p, %u, %lr, %t, %lr, %lr {epsilon = 1.0e-3 : f64, threshold = 1.0 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<5xf32>, tensor<f32>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

// adafactor C2: sums of squares are scalars.
func.func @case(%p: tensor<4xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error @+1 {{expects sums of squares as scalars, found 'tensor<4xf32>'}}
  %0 = stow.adafactor %p, %p, %lr, %t, %p, %lr {epsilon = 1.0e-3 : f64, threshold = 1.0 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}
