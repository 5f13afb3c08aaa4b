// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// cross_entropy_rows C1: one target per row.
func.func @case(%x: tensor<8x10xf32>, %t: tensor<7xi64>) {
  // expected-error @+1 {{expects one element per row of 'tensor<8x10xf32>', found 'tensor<7xi64>'}}
  %0:2 = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<7xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// cross_entropy_rows: rows of classes.
func.func @case(%x: tensor<8x10x2xf32>, %t: tensor<8xi64>) {
  // expected-error @+1 {{expects logits [R,C], found 'tensor<8x10x2xf32>'}}
  %0:2 = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x10x2xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// cross_entropy_rows: classes are integers.
func.func @case(%x: tensor<8x10xf32>, %t: tensor<8xf32>) {
  // expected-error @+1 {{must be statically shaped tensor of 64-bit signless integer or 32-bit signless integer values}}
  %0:2 = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// cross_entropy_rows_grad C1: one gradient per row.
func.func @case(%x: tensor<8x10xf32>, %t: tensor<8xi64>, %r: tensor<8xf32>, %d: tensor<7xf32>) {
  // expected-error @+1 {{expects one element per row of 'tensor<8x10xf32>', found 'tensor<7xf32>'}}
  %0 = stow.cross_entropy_rows_grad %x, %t, %r, %d {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<7xf32>) -> tensor<8x10xf32>
  return
}
