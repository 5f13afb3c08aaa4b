// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// max_pool C1: pads smaller than the window.
func.func @case(%x: tensor<2x4x8x8xf32>) {
  // expected-error @+2 {{pads must be smaller than the window in spatial dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.max_pool %x {dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 3, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
  return
}

// -----

// max_pool C1: positive strides.
func.func @case(%x: tensor<2x4x8x8xf32>) {
  // expected-error @+2 {{strides and dilations must be positive and pads not negative}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.max_pool %x {dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 0>} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
  return
}

// -----

// max_pool C2: the window fits.
func.func @case(%x: tensor<2x4x8x8xf32>) {
  // expected-error @+2 {{window of 11 elements does not fit into a padded extent of 10 in spatial dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.max_pool %x {dilations = array<i64: 1, 1>, kernel = array<i64: 11, 11>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
  return
}

// -----

// max_pool: images.
func.func @case(%x: tensor<8x8xf32>) {
  // expected-error @+2 {{expects x [N,C,H,W]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.max_pool %x {dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<8x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

// max_pool_training (C1): y is what max_pool gives.
func.func @case(%x: tensor<2x4x8x8xf32>) {
  // expected-error @+1 {{expects y of type 'tensor<2x4x4x4xf32>', found 'tensor<2x4x5x4xf32>'}}
  %0:2 = stow.max_pool_training %x {dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x5x4xf32>, tensor<2x4x4x4xi8>)
  return
}

// -----

// max_pool_grad: dy has the output's type.
func.func @case(%y: tensor<2x4x5x4xf32>, %i: tensor<2x4x5x4xi8>) {
  // expected-error @+1 {{expects dy of type 'tensor<2x4x4x4xf32>', found 'tensor<2x4x5x4xf32>'}}
  %0 = stow.max_pool_grad %y, %i {dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x5x4xf32>, tensor<2x4x5x4xi8>) -> tensor<2x4x8x8xf32>
  return
}

// -----

// avg_pool_grad: dy has the output's type.
func.func @case(%y: tensor<2x4x5x4xf32>) {
  // expected-error @+1 {{expects dy of type 'tensor<2x4x4x4xf32>', found 'tensor<2x4x5x4xf32>'}}
  %0 = stow.avg_pool_grad %y {count_include_pad = true, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x5x4xf32>) -> tensor<2x4x8x8xf32>
  return
}
