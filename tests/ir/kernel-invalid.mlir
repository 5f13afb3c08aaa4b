// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// map C1: operands broadcast to the result.
func.func @case(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{operand 'tensor<4xf32>' does not broadcast to 'tensor<4x8xf32>'}}
  %0 = stow.map %x, %y : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: f32, %b: f32):
    stow.yield %a : f32
  }
  return
}

// -----

// map C1: operands are not larger than the result.
func.func @case(%x: tensor<4x8xf32>, %y: tensor<2x4x8xf32>) {
  // expected-error @+1 {{operand 'tensor<2x4x8xf32>' does not broadcast to 'tensor<4x8xf32>'}}
  %0 = stow.map %x, %y : (tensor<4x8xf32>, tensor<2x4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: f32, %b: f32):
    stow.yield %a : f32
  }
  return
}

// -----

// map C2: types of the body.
func.func @case(%x: tensor<4xf32>) {
  // expected-error @+1 {{body arguments and yielded values must have the element types of operands and results}}
  %0 = stow.map %x : (tensor<4xf32>) -> tensor<4xf64> {
  ^bb0(%a: f32):
    stow.yield %a : f32
  }
  return
}

// -----

// map C3: ops of the body.
func.func @case(%x: tensor<4xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{body may hold arith and math ops only, found stow.constant}}
  %0 = stow.map %x : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32):
    %c = stow.constant dense<1.0> : tensor<f32>
    stow.yield %a : f32
  }
  return
}

// -----

// map: updates are pairs.
func.func @case(%x: tensor<4xf32>) {
  // expected-error @+1 {{updates are pairs of result and operand}}
  %0 = stow.map %x {updates = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32):
    stow.yield %a : f32
  }
  return
}

// -----

// map: an update keeps the type.
func.func @case(%x: tensor<4xf32>, %y: tensor<1xf32>) {
  // expected-error @+1 {{update of operand 1 by result 0 does not fit their types}}
  %0 = stow.map %x, %y {updates = array<i64: 0, 1>} : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32, %b: f32):
    stow.yield %a : f32
  }
  return
}

// -----

// product_map C1: matrices.
func.func @case(%a: tensor<8x6xf32>, %b: tensor<8x4xf32>, %w: tensor<6x4xf32>, %v: tensor<5xf32>, %c: tensor<2x8x6xf32>) {
  // expected-error @+1 {{expects matrices, or as many of each, found 'tensor<2x8x6xf32>' and 'tensor<8x4xf32>'}}
  %0 = stow.product_map %c, %b, %w {transpose_a = true, transpose_b = false} : (tensor<2x8x6xf32>, tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%p: f32, %q: f32):
    stow.yield %p : f32
  }
  return
}

// -----

// product_map C1: inner extents.
func.func @case(%a: tensor<8x6xf32>, %b: tensor<8x4xf32>, %w: tensor<6x4xf32>, %v: tensor<5xf32>, %c: tensor<2x8x6xf32>) {
  // expected-error @+1 {{inner extents differ: 8 of 'tensor<8x6xf32>' and 6 of 'tensor<6x4xf32>'}}
  %0 = stow.product_map %a, %w, %w {transpose_a = true, transpose_b = false} : (tensor<8x6xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%p: f32, %q: f32):
    stow.yield %p : f32
  }
  return
}

// -----

// product_map C3: the body reads the product of 16-bit factors in f32.
func.func @case(%a: tensor<8x6xbf16>, %b: tensor<8x4xbf16>, %w: tensor<6x4xf32>) {
  // expected-error @+1 {{body arguments and yielded values must have the element types of operands and results}}
  %0 = stow.product_map %a, %b, %w {transpose_a = true, transpose_b = false} : (tensor<8x6xbf16>, tensor<8x4xbf16>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%p: bf16, %q: f32):
    stow.yield %q : f32
  }
  return
}

// -----

// product_map C2: results are as large as the product.
func.func @case(%a: tensor<8x6xf32>, %b: tensor<8x4xf32>, %w: tensor<6x4xf32>, %v: tensor<5xf32>, %c: tensor<2x8x6xf32>) {
  // expected-error @+1 {{expects results of the product's extents 6 x 4, found 'tensor<8x6xf32>'}}
  %0 = stow.product_map %a, %b, %a {transpose_a = true, transpose_b = false} : (tensor<8x6xf32>, tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<8x6xf32> {
  ^bb0(%p: f32, %q: f32):
    stow.yield %p : f32
  }
  return
}

// -----

// product_map C2: inputs broadcast.
func.func @case(%a: tensor<8x6xf32>, %b: tensor<8x4xf32>, %w: tensor<6x4xf32>, %v: tensor<5xf32>, %c: tensor<2x8x6xf32>) {
  // expected-error @+1 {{operand 'tensor<5xf32>' does not broadcast to 'tensor<6x4xf32>'}}
  %0 = stow.product_map %a, %b, %v {transpose_a = true, transpose_b = false} : (tensor<8x6xf32>, tensor<8x4xf32>, tensor<5xf32>) -> tensor<6x4xf32> {
  ^bb0(%p: f32, %q: f32):
    stow.yield %p : f32
  }
  return
}

// -----

// product_map C3: no element_index.
func.func @case(%a: tensor<8x6xf32>, %b: tensor<8x4xf32>, %w: tensor<6x4xf32>, %v: tensor<5xf32>, %c: tensor<2x8x6xf32>) {
  // expected-error @+1 {{body may not hold stow.element_index}}
  %0 = stow.product_map %a, %b, %w {transpose_a = true, transpose_b = false} : (tensor<8x6xf32>, tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%p: f32, %q: f32):
    %i = stow.element_index : i64
    stow.yield %p : f32
  }
  return
}

// -----

// product_map C4: a factor is not overwritten.
func.func @case(%a: tensor<4x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{updates a factor of its product, operand 0}}
  %0 = stow.product_map %a, %a, %w {transpose_a = true, transpose_b = false, updates = array<i64: 0, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%p: f32, %q: f32):
    stow.yield %p : f32
  }
  return
}

// -----

// map: a packed mask has a bit for each element.
func.func @case(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expects masks of one bit an element over a multiple of 64 elements, found 'tensor<8xi8>' over 'tensor<8x16xf32>'}}
  %0:2 = stow.map %x : (tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8xi8>) {
  ^bb0(%p: f32):
    %zero = arith.constant 0.0 : f32
    %q = arith.cmpf ogt, %p, %zero : f32
    stow.yield %p, %q : f32, i1
  }
  return
}

// -----

// map: packed masks are over a multiple of 64.
func.func @case(%x: tensor<4x10xf32>, %m: tensor<5xi8>) {
  // expected-error @+1 {{expects masks of one bit an element over a multiple of 64 elements, found 'tensor<5xi8>' over 'tensor<4x10xf32>'}}
  %0 = stow.map %x, %m : (tensor<4x10xf32>, tensor<5xi8>) -> tensor<4x10xf32> {
  ^bb0(%p: f32, %q: i1):
    stow.yield %p : f32
  }
  return
}

// -----

// conv2d_map C1: the window fits.
func.func @case(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<5x1x1xf32>, %b: tensor<4x1x1xf32>) {
  // expected-error @+1 {{window of 17 elements does not fit into a padded extent of 8 in spatial dimension 0}}
  %0 = stow.conv2d_map %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 8, 8>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xf32> {
  ^bb0(%p: f32, %q: f32):
    stow.yield %p : f32
  }
  return
}

// -----

// conv2d_map C2: the result has the convolution's extents.
func.func @case(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<5x1x1xf32>, %b: tensor<4x1x1xf32>) {
  // expected-error @+1 {{expects a result of the convolution's extents 2 x 4 x 8 x 8, found 'tensor<2x4x8x7xf32>'}}
  %0 = stow.conv2d_map %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x7xf32> {
  ^bb0(%p: f32, %q: f32):
    stow.yield %p : f32
  }
  return
}

// -----

// conv2d_map C2: inputs broadcast.
func.func @case(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<5x1x1xf32>, %b: tensor<4x1x1xf32>) {
  // expected-error @+1 {{operand 'tensor<5x1x1xf32>' does not broadcast to 'tensor<2x4x8x8xf32>'}}
  %0 = stow.conv2d_map %x, %w, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<5x1x1xf32>) -> tensor<2x4x8x8xf32> {
  ^bb0(%p: f32, %q: f32):
    stow.yield %p : f32
  }
  return
}

// -----

// conv2d_map C3: no element_index.
func.func @case(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<5x1x1xf32>, %b: tensor<4x1x1xf32>) {
  // expected-error @+1 {{body may not hold stow.element_index}}
  %0 = stow.conv2d_map %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %i = stow.element_index : i64
    stow.yield %p : f32
  }
  return
}
