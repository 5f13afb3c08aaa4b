// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// take_along C1: axis.
func.func @case(%x: tensor<4x9xf32>, %i: tensor<4x2xi32>) {
  // expected-error @+2 {{axis 2 lies outside rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.take_along %x, %i {axis = 2 : i64} : (tensor<4x9xf32>, tensor<4x2xi32>) -> tensor<4x2xf32>
  return
}

// -----

// take_along C2: extents outside the axis.
func.func @case(%x: tensor<4x9xf32>, %i: tensor<3x2xi32>) {
  // expected-error @+2 {{expects indices of the extents of 'tensor<4x9xf32>' or 1 outside axis 1, found 'tensor<3x2xi32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.take_along %x, %i {axis = 1 : i64} : (tensor<4x9xf32>, tensor<3x2xi32>) -> tensor<4x2xf32>
  return
}

// -----

// scatter_along C3: one index per update.
func.func @case(%x: tensor<4x9xf32>, %i: tensor<4x2xi32>) {
  // expected-error @+2 {{expects as many indices as updates along axis 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.scatter_along %x, %i {axis = 1 : i64, extent = 5 : i64} : (tensor<4x9xf32>, tensor<4x2xi32>) -> tensor<4x5xf32>
  return
}

// -----

// scatter_max C1: axis.
func.func @case(%x: tensor<4x9xf32>, %u: tensor<4x2xf32>, %i: tensor<4x2xi32>) {
  // expected-error @+2 {{axis 2 lies outside rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.scatter_max %x, %u, %i {axis = 2 : i64} : (tensor<4x9xf32>, tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<4x9xf32>
  return
}

// -----

// scatter_max C2: extents of the indices outside the axis.
func.func @case(%x: tensor<4x9xf32>, %u: tensor<4x2xf32>, %i: tensor<3x2xi32>) {
  // expected-error @+2 {{expects indices of the extents of 'tensor<4x2xf32>' or 1 outside axis 1, found 'tensor<3x2xi32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.scatter_max %x, %u, %i {axis = 1 : i64} : (tensor<4x9xf32>, tensor<4x2xf32>, tensor<3x2xi32>) -> tensor<4x9xf32>
  return
}

// -----

// scatter_max C3: one index per update.
func.func @case(%x: tensor<4x9xf32>, %u: tensor<4x2xf32>, %i: tensor<4x3xi32>) {
  // expected-error @+2 {{expects as many indices as updates along axis 1, found 'tensor<4x3xi32>' for 'tensor<4x2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.scatter_max %x, %u, %i {axis = 1 : i64} : (tensor<4x9xf32>, tensor<4x2xf32>, tensor<4x3xi32>) -> tensor<4x9xf32>
  return
}

// -----

// scatter_max C4: data and updates differ along the axis alone.
func.func @case(%x: tensor<5x9xf32>, %u: tensor<4x2xf32>, %i: tensor<4x2xi32>) {
  // expected-error @+2 {{expects data of the type of 'tensor<4x2xf32>' outside axis 1, found 'tensor<5x9xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.scatter_max %x, %u, %i {axis = 1 : i64} : (tensor<5x9xf32>, tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<5x9xf32>
  return
}

// -----

// scatter_mul C1: axis.
func.func @case(%x: tensor<4x9xf32>, %u: tensor<4x2xf32>, %i: tensor<4x2xi32>) {
  // expected-error @+2 {{axis -1 lies outside rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.scatter_mul %x, %u, %i {axis = -1 : i64} : (tensor<4x9xf32>, tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<4x9xf32>
  return
}

// -----

// scatter_along C4: extent.
func.func @case(%x: tensor<4x9xf32>, %i: tensor<4x9xi32>) {
  // expected-error @+2 {{expects a positive extent, found 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.scatter_along %x, %i {axis = 1 : i64, extent = 0 : i64} : (tensor<4x9xf32>, tensor<4x9xi32>) -> tensor<4x0xf32>
  return
}

// -----

// strided_slice C1: the last element lies inside.
func.func @case(%x: tensor<8xf32>) {
  // expected-error @+2 {{box at [1] of size [4] in steps [3] lies outside 'tensor<8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.strided_slice %x {starts = array<i64: 1>, sizes = array<i64: 4>, steps = array<i64: 3>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

// strided_pad C1: the last element lies inside.
func.func @case(%x: tensor<4xf32>) {
  // expected-error @+2 {{'tensor<4xf32>' at [2] in steps [-1] lies outside [8]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.strided_pad %x {starts = array<i64: 2>, steps = array<i64: -1>, shape = array<i64: 8>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

// top_k C1: k.
func.func @case(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{takes 9 elements of 8}}
  // expected-error @+1 {{failed to infer returned types}}
  %v, %i = stow.top_k %x {axis = 1 : i64, k = 9 : i64, largest = true} : (tensor<4x8xf32>) -> (tensor<4x9xf32>, tensor<4x9xi64>)
  return
}

// -----

// cumsum C1: axis.
func.func @case(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{axis -1 lies outside rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.cumsum %x {axis = -1 : i64, exclusive = false, reverse = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
