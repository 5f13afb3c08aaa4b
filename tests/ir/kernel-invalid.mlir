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
