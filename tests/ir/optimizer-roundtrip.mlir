// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that the updates print and parse, with and without optional state.
// CHECK-LABEL: func.func @optimizer
func.func @optimizer(%p: tensor<4xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // CHECK: stow.sgd %{{.*}} {momentum = 0.000000e+00 : f64, nesterov = false, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = stow.sgd %p, %p, %lr {momentum = 0.000000e+00 : f64, nesterov = false, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: stow.sgd %{{.*}} {momentum = 9.000000e-01 : f64, nesterov = true, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %1:2 = stow.sgd %p, %p, %lr, %p {momentum = 9.000000e-01 : f64, nesterov = true, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.adam %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, decoupled = true, epsilon = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %2:3 = stow.adam %p, %p, %lr, %t, %p, %p {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, decoupled = true, epsilon = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.sgd %{{.*}} {lr_scale = 1.000000e-01 : f64, momentum
  %3 = stow.sgd %p, %p, %lr {lr_scale = 0.1 : f64, momentum = 0.000000e+00 : f64, nesterov = false, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: stow.adam %{{.*}} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %4:4 = stow.adam %p, %p, %lr, %t, %p, %p, %p {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, decoupled = true, epsilon = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.rmsprop %{{.*}} {alpha = 0.98999999999999999 : f64, centered = false, epsilon = 1.000000e-08 : f64, momentum = 0.000000e+00 : f64, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %5:2 = stow.rmsprop %p, %p, %lr, %p {alpha = 0.99 : f64, centered = false, epsilon = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.rmsprop %{{.*}} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %6:4 = stow.rmsprop %p, %p, %lr, %p, %p, %p {alpha = 0.99 : f64, centered = true, epsilon = 1.0e-8 : f64, momentum = 0.9 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.adagrad %{{.*}} {epsilon = 1.000000e-10 : f64, lr_decay = 0.000000e+00 : f64, weight_decay = 0.000000e+00 : f64}
  %7:2 = stow.adagrad %p, %p, %lr, %t, %p {epsilon = 1.0e-10 : f64, lr_decay = 0.0 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.lion %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = 0.98999999999999999 : f64, weight_decay = 0.000000e+00 : f64}
  %8:2 = stow.lion %p, %p, %lr, %p {beta1 = 0.9 : f64, beta2 = 0.99 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: stow.moving_average %{{.*}} {exponent = -8.000000e-01 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  %9 = stow.moving_average %p, %p, %t {exponent = -0.8 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  // CHECK: stow.adafactor %{{.*}} {epsilon = 1.000000e-03 : f64, threshold = 1.000000e+00 : f64, weight_decay = 0.000000e+00 : f64}
  %10 = stow.adafactor %p, %p, %lr, %t, %lr, %lr {epsilon = 1.0e-3 : f64, threshold = 1.0 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return
}
