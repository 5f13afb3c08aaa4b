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

// -----

// cross_entropy_rows C2: one weight per class.
func.func @case(%x: tensor<8x10xf32>, %t: tensor<8xi64>, %w: tensor<9xf32>) {
  // expected-error @+1 {{expects one weight per class of 'tensor<8x10xf32>', found 'tensor<9xf32>'}}
  %0:2 = stow.cross_entropy_rows %x, %t, %w {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<9xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// cross_entropy_rows C3: the smoothing is a share.
func.func @case(%x: tensor<8x10xf32>, %t: tensor<8xi64>) {
  // expected-error @+1 {{expects a label_smoothing in [0, 1], found 1.1}}
  %0:2 = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64, label_smoothing = 1.1 : f64} : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// cross_entropy_rows_grad C3: the smoothing is a share.
func.func @case(%x: tensor<8x10xf32>, %t: tensor<8xi64>, %r: tensor<8xf32>) {
  // expected-error @+1 {{expects a label_smoothing in [0, 1], found -1}}
  %0 = stow.cross_entropy_rows_grad %x, %t, %r, %r {ignore_index = -100 : i64, label_smoothing = -1.0 : f64} : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x10xf32>
  return
}

// -----

// nll_rows C1: one target per row.
func.func @case(%x: tensor<8x10xf32>, %t: tensor<7xi64>) {
  // expected-error @+1 {{expects one element per row of 'tensor<8x10xf32>', found 'tensor<7xi64>'}}
  %0 = stow.nll_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<7xi64>) -> tensor<8xf32>
  return
}

// -----

// nll_rows_grad C1: one target and one gradient a row.
func.func @case(%t: tensor<8xi64>, %d: tensor<7xf32>) {
  // expected-error @+2 {{expects one target and one gradient a row, found 'tensor<8xi64>' and 'tensor<7xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.nll_rows_grad %t, %d {classes = 10 : i64, ignore_index = -100 : i64} : (tensor<8xi64>, tensor<7xf32>) -> tensor<8x10xf32>
  return
}

// -----

// nll_rows_grad C2: there are classes.
func.func @case(%t: tensor<8xi64>, %d: tensor<8xf32>) {
  // expected-error @+2 {{expects at least one class}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.nll_rows_grad %t, %d {classes = 0 : i64, ignore_index = -100 : i64} : (tensor<8xi64>, tensor<8xf32>) -> tensor<8x0xf32>
  return
}

// -----

// class_weights C1: rows and classes.
func.func @case(%t: tensor<8x2xi64>, %w: tensor<10xf32>) {
  // expected-error @+2 {{expects targets [R] and weights [C], found 'tensor<8x2xi64>' and 'tensor<10xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.class_weights %t, %w {ignore_index = -100 : i64} : (tensor<8x2xi64>, tensor<10xf32>) -> tensor<8x2xf32>
  return
}
