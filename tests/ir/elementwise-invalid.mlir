// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// binary C1: shapes do not broadcast.
func.func @case(%a: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @+2 {{operand shapes do not broadcast: [4, 8] against [4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.add %a, %b : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

// binary C2: different element types.
func.func @case(%a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @+2 {{operands have different element types: 'f32' and 'f64'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.mul %a, %b : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

// The result type follows from the operands.
func.func @case(%a: tensor<4xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<5xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.exp %a : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// Shapes are static.
func.func @case(%a: tensor<?xf32>) {
  // expected-error @+1 {{must be statically shaped tensor of 64-bit float or 32-bit float or 16-bit float or bfloat16 type values}}
  %0 = stow.exp %a : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

// Arithmetic is not on masks.
func.func @case(%a: tensor<4xi1>) {
  // expected-error @+1 {{must be statically shaped tensor of 64-bit float or 32-bit float or 16-bit float or bfloat16 type or 64-bit signless integer or 32-bit signless integer values}}
  %0 = stow.neg %a : (tensor<4xi1>) -> tensor<4xi1>
  return
}

// -----

// relu_grad C1: shape of what is saved.
func.func @case(%a: tensor<4xf32>, %m: tensor<5xi1>) {
  // expected-error @+1 {{expects saved of shape [4], found [5]}}
  %0 = stow.relu_grad %a, %m : (tensor<4xf32>, tensor<5xi1>) -> tensor<4xf32>
  return
}

// -----

// relu_grad: type of what is saved.
func.func @case(%a: tensor<4xf32>, %m: tensor<4xi8>) {
  // expected-error @+1 {{expects saved of type i1 or 'f32', found 'i8'}}
  %0 = stow.relu_grad %a, %m : (tensor<4xf32>, tensor<4xi8>) -> tensor<4xf32>
  return
}

// -----

// clip C1: empty interval.
func.func @case(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects low <= high}}
  %0 = stow.clip %a {low = 2.0 : f64, high = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// hard_tanh C1: empty interval.
func.func @case(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects low <= high}}
  %0 = stow.hard_tanh %a {low = 2.0 : f64, high = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// atan2 C1: shapes that do not broadcast.
func.func @case(%a: tensor<4xf32>, %b: tensor<3xf32>) {
  // expected-error @+2 {{operand shapes do not broadcast: [4] against [3]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stow.atan2"(%a, %b) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

// binary_cross_entropy C2: two element types.
func.func @case(%a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @+2 {{operands have different element types: 'f32' and 'f64'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stow.binary_cross_entropy"(%a, %b) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

// cast C1: another shape.
func.func @case(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects operand and result of one shape}}
  %0 = stow.cast %a : (tensor<4xf32>) -> tensor<5xbf16>
  return
}

// -----

// dropout: ratio outside [0, 1).
func.func @case(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects a ratio in [0, 1), found 1.0}}
  %0 = stow.dropout %a {ratio = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// select C1: shapes broadcast.
func.func @case(%c: tensor<3xi1>, %a: tensor<4xf32>) {
  // expected-error @+2 {{operand shapes do not broadcast}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.select %c, %a, %a : (tensor<3xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// select C2: one element type.
func.func @case(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @+2 {{operands have different element types: 'f32' and 'f64'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.select %c, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

// compare C2: one element type.
func.func @case(%a: tensor<4xi64>, %b: tensor<4xi32>) {
  // expected-error @+2 {{operands have different element types: 'i64' and 'i32'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.compare %a, %b {predicate = "eq"} : (tensor<4xi64>, tensor<4xi32>) -> tensor<4xi1>
  return
}

// -----

// compare C3: masks have no order.
func.func @case(%a: tensor<4xi1>) {
  // expected-error @+1 {{expects predicate eq or ne, or for numbers lt, le, gt or ge, found "lt"}}
  %0 = stow.compare %a, %a {predicate = "lt"} : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return
}

// -----

// round C1: modes.
func.func @case(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects mode even, floor, ceil or zero, found "up"}}
  %0 = stow.round %x {mode = "up"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// random C1: probabilities.
func.func @case() {
  // expected-error @+1 {{bernoulli with a in [0, 1], found "bernoulli" with a = 1.5}}
  %0 = stow.random {distribution = "bernoulli", a = 1.5 : f64, b = 0.0 : f64, stream = 0 : i64} : () -> tensor<4xf32>
  return
}

// -----

// draw C1: ranges.
func.func @case(%seed: tensor<i64>) {
  // expected-error @+1 {{uniform with a < b}}
  %0 = stow.draw %seed {distribution = "uniform", a = 1.0 : f64, b = 1.0 : f64, stream = 0 : i64} : (tensor<i64>) -> tensor<4xf32>
  return
}
