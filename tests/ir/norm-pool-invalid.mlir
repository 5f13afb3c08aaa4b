// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// batch_norm_max_pool C1: y is x pooled.
func.func @case(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{expects pooled elements and positions of types 'tensor<2x8x4x3xf32>' and 'tensor<2x8x4x3xi8>', found 'tensor<2x8x4x4xf32>' and 'tensor<2x8x4x3xi8>'}}
  %y, %i, %m, %v = stow.batch_norm_max_pool %x, %s, %s {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x8x4x3xi8>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_max_pool C1: there is a position for each element.
func.func @case(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{expects pooled elements and positions of types 'tensor<2x8x4x3xf32>' and 'tensor<2x8x4x3xi8>', found 'tensor<2x8x4x3xf32>' and 'tensor<2x8x3x3xi8>'}}
  %y, %i, %m, %v = stow.batch_norm_max_pool %x, %s, %s {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x3xf32>, tensor<2x8x3x3xi8>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_max_pool C1: x has images.
func.func @case(%x: tensor<2x8xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{expects x [N,C,H,W], or one or three spatial dimensions, found 'tensor<2x8xf32>'}}
  %y, %i, %m, %v = stow.batch_norm_max_pool %x, %s, %s {dilations = array<i64>, epsilon = 1.0e-5 : f64, kernel = array<i64>, pads = array<i64>, strides = array<i64>} : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xi8>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_max_pool C2: vectors have an element per channel.
func.func @case(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>, %b: tensor<7xf32>) {
  // expected-error @+1 {{expects vectors of 8 elements, one per channel, found 'tensor<7xf32>'}}
  %y, %i, %m, %v = stow.batch_norm_max_pool %x, %s, %b {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<7xf32>) -> (tensor<2x8x4x3xf32>, tensor<2x8x4x3xi8>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_max_pool_gradient C1: dy is x pooled.
func.func @case(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>, %dy: tensor<2x8x7x6xf32>, %i: tensor<2x8x4x3xi8>) {
  // expected-error @+1 {{expects pooled elements and positions of types 'tensor<2x8x4x3xf32>' and 'tensor<2x8x4x3xi8>', found 'tensor<2x8x7x6xf32>' and 'tensor<2x8x4x3xi8>'}}
  %dx, %ds, %db = stow.batch_norm_max_pool_gradient %x, %s, %s, %s, %dy, %i {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x7x6xf32>, tensor<2x8x4x3xi8>) -> (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_max_pool_gradient C2: vectors have an element per channel.
func.func @case(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>, %dy: tensor<2x8x4x3xf32>, %i: tensor<2x8x4x3xi8>) {
  // expected-error @+1 {{expects vectors of 8 elements, one per channel, found 'tensor<4xf32>'}}
  %dx, %ds, %db = stow.batch_norm_max_pool_gradient %x, %s, %s, %s, %dy, %i {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x4x3xf32>, tensor<2x8x4x3xi8>) -> (tensor<2x8x7x6xf32>, tensor<4xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_max_pool_gradient C3: dx has x's shape.
func.func @case(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>, %dy: tensor<2x8x4x3xf32>, %i: tensor<2x8x4x3xi8>) {
  // expected-error @+1 {{expects dx of type 'tensor<2x8x7x6xf32>', found 'tensor<2x8x7x7xf32>'}}
  %dx, %ds, %db = stow.batch_norm_max_pool_gradient %x, %s, %s, %s, %dy, %i {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x7x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x4x3xf32>, tensor<2x8x4x3xi8>) -> (tensor<2x8x7x7xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_max_pool C1: positions in nine elements take half a byte each, where there are 16 channels.
func.func @case(%x: tensor<2x16x7x6xf32>, %s: tensor<16xf32>) {
  // expected-error @+1 {{expects pooled elements and positions of types 'tensor<2x16x4x3xf32>' and 'tensor<2x8x4x3xi8>', found 'tensor<2x16x4x3xf32>' and 'tensor<2x16x4x3xi8>'}}
  %y, %i, %m, %v = stow.batch_norm_max_pool %x, %s, %s {dilations = array<i64: 1, 1>, epsilon = 1.0e-5 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x16x7x6xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x4x3xf32>, tensor<2x16x4x3xi8>, tensor<16xf32>, tensor<16xf32>)
  return
}
