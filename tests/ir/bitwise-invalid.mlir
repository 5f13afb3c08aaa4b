// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// bitwise C1: shapes.
func.func @case(%a: tensor<4x8xi64>, %b: tensor<4xi64>) {
  // expected-error @+2 {{operand shapes do not broadcast: [4, 8] against [4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.bitwise %a, %b {kind = "and"} : (tensor<4x8xi64>, tensor<4xi64>) -> tensor<4x8xi64>
  return
}

// -----

// bitwise C2: one element type.
func.func @case(%a: tensor<4xi64>, %b: tensor<4xi32>) {
  // expected-error @+2 {{operands have different element types: 'i64' and 'i32'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.bitwise %a, %b {kind = "and"} : (tensor<4xi64>, tensor<4xi32>) -> tensor<4xi64>
  return
}

// -----

// bitwise C3: kind.
func.func @case(%a: tensor<4xi64>) {
  // expected-error @+1 {{expects kind and, or, xor, shift_left or shift_right, found "nand"}}
  %0 = stow.bitwise %a, %a {kind = "nand"} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

// Bits are those of whole numbers.
func.func @case(%a: tensor<4xf32>) {
  // expected-error @+1 {{must be statically shaped tensor of 64-bit signless integer or 32-bit signless integer values}}
  %0 = stow.bitwise %a, %a {kind = "and"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
