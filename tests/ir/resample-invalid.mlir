// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// resample C1: ascending axes.
func.func @case(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{expects ascending axes inside rank 2, found [1, 1]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.resample %x {axes = array<i64: 1, 1>, extents = array<i64: 1, 1>, starts = array<i64: 0, 1, 1, 2>, sources = array<i64: 0, 0>, weights = array<f64: 1.0, 1.0>} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  return
}

// -----

// resample C1: axes inside the rank.
func.func @case(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{expects ascending axes inside rank 2, found [2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.resample %x {axes = array<i64: 2>, extents = array<i64: 1>, starts = array<i64: 0, 1>, sources = array<i64: 0>, weights = array<f64: 1.0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// resample C2: one weight per source.
func.func @case(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{and one weight per source}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.resample %x {axes = array<i64: 1>, extents = array<i64: 1>, starts = array<i64: 0, 1>, sources = array<i64: 0>, weights = array<f64: 1.0, 1.0>} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  return
}

// -----

// resample C2: extent + 1 starts.
func.func @case(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{expects positive extents, extent + 1 starts for each axis}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.resample %x {axes = array<i64: 1>, extents = array<i64: 2>, starts = array<i64: 0, 1>, sources = array<i64: 0>, weights = array<f64: 1.0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

// resample C2: positive extents.
func.func @case(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{expects positive extents}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.resample %x {axes = array<i64: 1>, extents = array<i64: 0>, starts = array<i64: 0>, sources = array<i64>, weights = array<f64>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// resample C2: one list continues the last.
func.func @case(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{expects the starts of dimension 0 to end where the next axis' begin}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.resample %x {axes = array<i64: 0, 1>, extents = array<i64: 1, 1>, starts = array<i64: 0, 1, 2, 3>, sources = array<i64: 0, 0, 0>, weights = array<f64: 1.0, 1.0, 1.0>} : (tensor<2x3xf32>) -> tensor<1x1xf32>
  return
}

// -----

// resample C3: sources inside x.
func.func @case(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{source 3 lies outside dimension 1 of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.resample %x {axes = array<i64: 1>, extents = array<i64: 1>, starts = array<i64: 0, 1>, sources = array<i64: 3>, weights = array<f64: 1.0>} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  return
}

// -----

// rearrange C1: factors of x.
func.func @case(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{expects factors of 'tensor<4x6xf32>', found [8, 3]}}
  %0 = stow.rearrange %x {factors = array<i64: 8, 3>, permutation = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<8x3xf32>
  return
}

// -----

// rearrange C2: a permutation.
func.func @case(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{expects a permutation of 3 factors, found [0, 1, 1]}}
  %0 = stow.rearrange %x {factors = array<i64: 4, 2, 3>, permutation = array<i64: 0, 1, 1>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

// rearrange C3: y's extents.
func.func @case(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{expects a result whose extents are products of [2, 4, 3], of x's element type, found 'tensor<6x4xf32>'}}
  %0 = stow.rearrange %x {factors = array<i64: 4, 2, 3>, permutation = array<i64: 1, 0, 2>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  return
}

// -----

// grid_sample C1: rank 3 to 5.
func.func @case(%x: tensor<2x3xf32>, %g: tensor<2x1xf32>) {
  // expected-error @+2 {{expects images of rank 3 to 5, found rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample %x, %g {mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  return
}

// -----

// grid_sample C1: rank 3 to 5.
func.func @case(%x: tensor<1x1x2x2x2x2xf32>, %g: tensor<1x2x2x2x2x4xf32>) {
  // expected-error @+2 {{expects images of rank 3 to 5, found rank 6}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample %x, %g {mode = "linear", padding = "zeros", align_corners = false} : (tensor<1x1x2x2x2x2xf32>, tensor<1x2x2x2x2x4xf32>) -> tensor<1x1x2x2x2x2xf32>
  return
}

// -----

// grid_sample C2: one grid per image.
func.func @case(%x: tensor<2x3x4x5xf32>, %g: tensor<3x6x7x2xf32>) {
  // expected-error @+2 {{expects a grid of rank 4 whose first extent is 2 and whose last is 2, found 'tensor<3x6x7x2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample %x, %g {mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3x4x5xf32>, tensor<3x6x7x2xf32>) -> tensor<2x3x6x7xf32>
  return
}

// -----

// grid_sample C2: two coordinates.
func.func @case(%x: tensor<2x3x4x5xf32>, %g: tensor<2x6x7x3xf32>) {
  // expected-error @+2 {{expects a grid of rank 4 whose first extent is 2 and whose last is 2, found 'tensor<2x6x7x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample %x, %g {mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3x4x5xf32>, tensor<2x6x7x3xf32>) -> tensor<2x3x6x7xf32>
  return
}

// -----

// grid_sample C2: x's rank.
func.func @case(%x: tensor<2x3x4x5xf32>, %g: tensor<2x6x2xf32>) {
  // expected-error @+2 {{expects a grid of rank 4 whose first extent is 2 and whose last is 2, found 'tensor<2x6x2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample %x, %g {mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3x4x5xf32>, tensor<2x6x2xf32>) -> tensor<2x3x6x7xf32>
  return
}

// -----

// grid_sample C3: mode.
func.func @case(%x: tensor<2x3x4x5xf32>, %g: tensor<2x6x7x2xf32>) {
  // expected-error @+2 {{expects mode linear or nearest, found cubic}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample %x, %g {mode = "cubic", padding = "zeros", align_corners = false} : (tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32>
  return
}

// -----

// grid_sample C3: padding.
func.func @case(%x: tensor<2x3x4x5xf32>, %g: tensor<2x6x7x2xf32>) {
  // expected-error @+2 {{expects padding zeros, border or reflection, found wrap}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample %x, %g {mode = "linear", padding = "wrap", align_corners = false} : (tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32>
  return
}

// -----

// grid_sample_grad_input C2: coordinates.
func.func @case(%dy: tensor<2x3x6x7xf32>, %g: tensor<2x6x7x2xf32>) {
  // expected-error @+2 {{expects a grid of rank 3 whose first extent is 2 and whose last is 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample_grad_input %dy, %g {extents = array<i64: 4>, mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3x6x7xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

// grid_sample_grad_input C4: the grid's places.
func.func @case(%dy: tensor<2x3x6x6xf32>, %g: tensor<2x6x7x2xf32>) {
  // expected-error @+2 {{expects dy with the places of 'tensor<2x6x7x2xf32>', found 'tensor<2x3x6x6xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample_grad_input %dy, %g {extents = array<i64: 4, 5>, mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3x6x6xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x4x5xf32>
  return
}

// -----

// grid_sample_grad_input C5: positive extents.
func.func @case(%dy: tensor<2x3x6x7xf32>, %g: tensor<2x6x7x2xf32>) {
  // expected-error @+2 {{expects positive extents, found [4, 0]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample_grad_input %dy, %g {extents = array<i64: 4, 0>, mode = "linear", padding = "zeros", align_corners = false} : (tensor<2x3x6x7xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x4x0xf32>
  return
}

// -----

// grid_sample_grad_grid C4: x's channels.
func.func @case(%dy: tensor<2x4x6x7xf32>, %x: tensor<2x3x4x5xf32>, %g: tensor<2x6x7x2xf32>) {
  // expected-error @+2 {{expects dy with the channels of 'tensor<2x3x4x5xf32>' and the places of 'tensor<2x6x7x2xf32>', found 'tensor<2x4x6x7xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.grid_sample_grad_grid %dy, %x, %g {padding = "zeros", align_corners = false} : (tensor<2x4x6x7xf32>, tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x6x7x2xf32>
  return
}
