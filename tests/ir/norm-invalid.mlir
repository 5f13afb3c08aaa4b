// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// batch_norm C1: one element per channel.
func.func @case(%x: tensor<2x4x8x8xf32>, %v: tensor<4xf32>, %w: tensor<5xf32>) {
  // expected-error @+1 {{expects vectors of 4 elements, one per channel, found 'tensor<5xf32>'}}
  %0 = stow.batch_norm %x, %v, %v, %w, %v {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<5xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
  return
}

// -----

// batch_norm: rank 2 to 5.
func.func @case(%x: tensor<4xf32>, %v: tensor<4xf32>) {
  // expected-error @+1 {{expects x of rank 2 to 5}}
  %0:3 = stow.batch_norm_training %x, %v, %v {epsilon = 1.0e-5 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// batch_norm_training C1: one element per channel.
func.func @case(%x: tensor<2x4x8x8xf32>, %v: tensor<4xf32>, %w: tensor<5xf32>) {
  // expected-error @+1 {{expects vectors of 4 elements, one per channel, found 'tensor<5xf32>'}}
  %0:3 = stow.batch_norm_training %x, %w, %v {epsilon = 1.0e-5 : f64} : (tensor<2x4x8x8xf32>, tensor<5xf32>, tensor<4xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// channel_window_sum: the window contains its channel.
func.func @case(%x: tensor<2x4x8x8xf32>) {
  // expected-error @+1 {{expects a window that contains its own channel}}
  %0 = stow.channel_window_sum %x {before = -1 : i64, after = 2 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  return
}

// -----

// channel_window_sum: channels.
func.func @case(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects x of rank 2 or more}}
  %0 = stow.channel_window_sum %x {before = 1 : i64, after = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// layer_norm C1: rows.
func.func @case(%x: tensor<4xf32>, %v: tensor<4xf32>) {
  // expected-error @+2 {{expects x of rank 2 or more, found 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:3 = stow.layer_norm %x, %v {epsilon = 1.0e-5 : f64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>, tensor<f32>)
  return
}

// -----

// layer_norm C2: one element per element of a row.
func.func @case(%x: tensor<8x4xf32>, %v: tensor<4xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{expects scale and bias of type 'tensor<4xf32>', found 'tensor<8xf32>'}}
  %0:3 = stow.layer_norm %x, %v, %w {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// channel_moments C1: channels.
func.func @case(%x: tensor<4xf32>) {
  // expected-error @+2 {{expects x of rank 2 or more, found 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = stow.channel_moments %x : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// batch_norm_scale_grad C1: dy over x.
func.func @case(%x: tensor<8x4xf32>, %y: tensor<9x4xf32>, %v: tensor<4xf32>) {
  // expected-error @+1 {{expects dy of x's shape, found 'tensor<9x4xf32>' and 'tensor<8x4xf32>'}}
  %0:2 = stow.batch_norm_scale_grad %y, %x, %v, %v {epsilon = 1.0e-5 : f64} : (tensor<9x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// batch_norm_scale_grad C2: one number per channel.
func.func @case(%x: tensor<8x4xf32>, %v: tensor<4xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{expects vectors of 4 elements, one per channel, found 'tensor<8xf32>'}}
  %0:2 = stow.batch_norm_scale_grad %x, %x, %v, %w {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// plane_moments C1: planes.
func.func @case(%x: tensor<8x4xf32>) {
  // expected-error @+2 {{expects x of rank 3 or more, found 'tensor<8x4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = stow.plane_moments %x : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return
}

// -----

// plane_normalize C1: one number per plane.
func.func @case(%x: tensor<8x4x2xf32>, %m: tensor<8x4x1xf32>, %c: tensor<1x4x1xf32>) {
  // expected-error @+1 {{expects mean, slope and shift of type 'tensor<8x4x1xf32>', found 'tensor<1x4x1xf32>'}}
  %0 = stow.plane_normalize %x, %m, %c, %m : (tensor<8x4x2xf32>, tensor<8x4x1xf32>, tensor<1x4x1xf32>, tensor<8x4x1xf32>) -> tensor<8x4x2xf32>
  return
}

// -----

// plane_products C1: dy as x.
func.func @case(%x: tensor<8x4x2xf32>, %dy: tensor<8x4x3xf32>, %m: tensor<8x4xf32>) {
  // expected-error @+1 {{expects dy of x's shape, found 'tensor<8x4x3xf32>' and 'tensor<8x4x2xf32>'}}
  %0:2 = stow.plane_products %dy, %x, %m : (tensor<8x4x3xf32>, tensor<8x4x2xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return
}

// -----

// plane_products C2: one mean per plane.
func.func @case(%x: tensor<8x4x2xf32>, %m: tensor<4xf32>) {
  // expected-error @+1 {{expects a mean of type 'tensor<8x4xf32>', found 'tensor<4xf32>'}}
  %0:2 = stow.plane_products %x, %x, %m : (tensor<8x4x2xf32>, tensor<8x4x2xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return
}

// -----

// rms_norm C1: rows.
func.func @case(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  // expected-error @+2 {{expects x of rank 2 or more, found 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = stow.rms_norm %x, %s {epsilon = 1.0e-5 : f64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  return
}

// -----

// rms_norm C2: a scale as long as a row.
func.func @case(%x: tensor<8x4xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{expects a scale of type 'tensor<4xf32>', found 'tensor<8xf32>'}}
  %0:2 = stow.rms_norm %x, %s {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}
