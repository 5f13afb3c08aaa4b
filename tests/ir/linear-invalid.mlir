// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// conv2d C1: channels against groups.
func.func @case(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+2 {{expects C = 4 channels to be weight dimension 1 (4) times groups (2), and groups to divide 6 outputs}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w {dilations = array<i64: 1, 1>, groups = 2 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

// conv2d C1: groups must divide the outputs.
func.func @case(%x: tensor<2x4x8x8xf32>, %w: tensor<5x2x3x3xf32>) {
  // expected-error @+2 {{expects C = 4 channels to be weight dimension 1 (2) times groups (2), and groups to divide 5 outputs}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w {dilations = array<i64: 1, 1>, groups = 2 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<5x2x3x3xf32>) -> tensor<2x5x4x4xf32>
  return
}

// -----

// conv2d C2: strides are positive.
func.func @case(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+2 {{strides and dilations must be positive and pads not negative}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 0, 1>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

// conv2d C2: pads are not negative.
func.func @case(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+2 {{strides and dilations must be positive and pads not negative}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 0, -1, 0, 0>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

// conv2d C3: the window fits.
func.func @case(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+2 {{window of 17 elements does not fit into a padded extent of 10 in spatial dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w {dilations = array<i64: 8, 8>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

// conv2d: two strides.
func.func @case(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+2 {{expects windows over 2 spatial dimensions: 2 strides, 4 pads, 2 dilations}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

// conv2d: images.
func.func @case(%x: tensor<4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+2 {{expects x [N,C,H,W] and weight [O,C/groups,kh,kw]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

// conv2d: size of the bias.
func.func @case(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<5xf32>) {
  // expected-error @+2 {{expects a bias of 6 elements}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w, %b {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<5xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

// conv2d: the result follows.
func.func @case(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+2 {{are incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.conv2d %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x5x5xf32>
  return
}

// -----

// conv2d_grad_input: dy has the output's type.
func.func @case(%w: tensor<6x4x3x3xf32>, %y: tensor<2x6x5x4xf32>) {
  // expected-error @+1 {{expects dy of type 'tensor<2x6x4x4xf32>', found 'tensor<2x6x5x4xf32>'}}
  %0 = stow.conv2d_grad_input %y, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x6x5x4xf32>, tensor<6x4x3x3xf32>) -> tensor<2x4x8x8xf32>
  return
}

// -----

// conv2d_grad_weight: dy has the output's type.
func.func @case(%x: tensor<2x4x8x8xf32>, %y: tensor<2x6x5x4xf32>) {
  // expected-error @+1 {{expects dy of type 'tensor<2x6x4x4xf32>', found 'tensor<2x6x5x4xf32>'}}
  %0 = stow.conv2d_grad_weight %x, %y {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x8x8xf32>, tensor<2x6x5x4xf32>) -> tensor<6x4x3x3xf32>
  return
}

// -----

// matmul C1: inner extents.
func.func @case(%a: tensor<2x5xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+2 {{inner extents differ: 5 of 'tensor<2x5xf32>' and 4 of 'tensor<4x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.matmul %a, %b {transpose_a = false, transpose_b = false} : (tensor<2x5xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// matmul C2: leading dimensions.
func.func @case(%a: tensor<2x2x5xf32>, %b: tensor<3x5x3xf32>) {
  // expected-error @+2 {{leading dimensions do not broadcast}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.matmul %a, %b {transpose_a = false, transpose_b = false} : (tensor<2x2x5xf32>, tensor<3x5x3xf32>) -> tensor<2x2x3xf32>
  return
}

// -----

// matmul: matrices.
func.func @case(%a: tensor<5xf32>, %b: tensor<5x3xf32>) {
  // expected-error @+2 {{expects matrices}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.matmul %a, %b {transpose_a = false, transpose_b = false} : (tensor<5xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return
}

// -----

// matmul: size of the bias.
func.func @case(%a: tensor<2x5xf32>, %b: tensor<5x3xf32>, %c: tensor<2xf32>) {
  // expected-error @+2 {{expects a bias of 3 elements}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.matmul %a, %b, %c {transpose_a = false, transpose_b = false} : (tensor<2x5xf32>, tensor<5x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}
