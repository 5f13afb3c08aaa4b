// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// reshape C1: as many elements.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+1 {{expects as many elements of the same type}}
  %0 = stow.reshape %x : (tensor<2x6xf32>) -> tensor<13xf32>
  return
}

// -----

// reshape C1: the same type.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+1 {{expects as many elements of the same type}}
  %0 = stow.reshape %x : (tensor<2x6xf32>) -> tensor<12xf64>
  return
}

// -----

// transpose C1: a permutation.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+2 {{expects a permutation of 2 dimensions, found [0, 0]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.transpose %x {permutation = array<i64: 0, 0>} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return
}

// -----

// reorder: the same tensor.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+1 {{changes the logical tensor}}
  %0 = stow.reorder %x : (tensor<2x6xf32>) -> tensor<6x2xf32>
  return
}

// -----

// concat C1: shapes agree outside the axis.
func.func @case(%x: tensor<2x6xf32>, %y: tensor<3x6xf32>) {
  // expected-error @+2 {{inputs disagree outside axis 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.concat %x, %y {axis = 1 : i64} : (tensor<2x6xf32>, tensor<3x6xf32>) -> tensor<2x12xf32>
  return
}

// -----

// concat: axis inside the rank.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+2 {{axis 2 lies outside rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.concat %x, %x {axis = 2 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  return
}

// -----

// slice C1: the box lies inside.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+2 {{box at [1, 4] of size [1, 3] lies outside}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.slice %x {starts = array<i64: 1, 4>, sizes = array<i64: 1, 3>} : (tensor<2x6xf32>) -> tensor<1x3xf32>
  return
}

// -----

// pad C1: counts are not negative.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+2 {{expects 2 non-negative counts before and after}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.pad %x {before = array<i64: 0, -2>, after = array<i64: 1, 0>, value = 0.0 : f64} : (tensor<2x6xf32>) -> tensor<3x4xf32>
  return
}

// -----

// broadcast_to C1: NumPy's rule.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+1 {{'tensor<2x6xf32>' does not broadcast to 'tensor<3x6xf32>'}}
  %0 = stow.broadcast_to %x : (tensor<2x6xf32>) -> tensor<3x6xf32>
  return
}

// -----

// A layout fits its tensor's rank.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+1 {{dimension}}
  %0 = stow.reorder %x : (tensor<2x6xf32>) -> tensor<2x6xf32, #stow.layout<"0,2,3,1">>
  return
}

// -----

// A layout can be read.
func.func @case(%x: tensor<2x6xf32>) {
  // expected-error @+1 {{layout}}
  %0 = stow.reorder %x : (tensor<2x6xf32>) -> tensor<2x6xf32, #stow.layout<"1;x">>
  return
}
