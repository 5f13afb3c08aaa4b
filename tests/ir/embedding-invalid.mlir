// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// embedding C1: rows.
func.func @case(%t: tensor<50xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{expects a table of rank 2 or more, found 'tensor<50xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.embedding %t, %i : (tensor<50xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

// embedding: the result is one row per index.
func.func @case(%t: tensor<50x8xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{are incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.embedding %t, %i : (tensor<50x8xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

// embedding: indices are integers.
func.func @case(%t: tensor<50x8xf32>, %i: tensor<4xf32>) {
  // expected-error @+1 {{operand #1 must be}}
  %0 = stow.embedding %t, %i : (tensor<50x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

// embedding_grad C1: one row of dy per index.
func.func @case(%dy: tensor<5x8xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{expects dy of the shape of the indices, then that of a row, found 'tensor<5x8xf32>' for indices 'tensor<4xi64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.embedding_grad %dy, %i {rows = 50 : i64} : (tensor<5x8xf32>, tensor<4xi64>) -> tensor<50x8xf32>
  return
}

// -----

// embedding_grad C2: rows.
func.func @case(%dy: tensor<4x8xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{expects a positive number of rows, found 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.embedding_grad %dy, %i {rows = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<0x8xf32>
  return
}

// -----

// embedding C2: the padding is a row.
func.func @g(%t: tensor<50x8xf32>, %i: tensor<4xi64>) {
  // expected-error@+2 {{expects a padding_index from 0 to 49, found 50}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = stow.embedding %t, %i {padding_index = 50 : i64} : (tensor<50x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  return
}

// -----

// embedding_grad C3: the padding is a row.
func.func @g(%dy: tensor<4x8xf32>, %i: tensor<4xi64>) {
  // expected-error@+2 {{expects a padding_index from 0 to 49, found -1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = stow.embedding_grad %dy, %i {rows = 50 : i64, padding_index = -1 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<50x8xf32>
  return
}

// -----

// embedding_grad_add C1: one row of the gradient per index.
func.func @g(%d: tensor<50x8xf32>, %dy: tensor<4x7xf32>, %i: tensor<4xi64>) {
  // expected-error@+2 {{expects dy of the shape of the indices, then that of a row of the gradient, found 'tensor<4x7xf32>' for indices 'tensor<4xi64>' and 'tensor<50x8xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = stow.embedding_grad_add %d, %dy, %i : (tensor<50x8xf32>, tensor<4x7xf32>, tensor<4xi64>) -> (tensor<50x8xf32>, tensor<4x7xf32>)
  return
}

// -----

// embedding_grad_add C2: the padding is a row.
func.func @g(%d: tensor<50x8xf32>, %dy: tensor<4x8xf32>, %i: tensor<4xi64>) {
  // expected-error@+2 {{expects a padding_index from 0 to 49, found 50}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = stow.embedding_grad_add %d, %dy, %i {padding_index = 50 : i64} : (tensor<50x8xf32>, tensor<4x8xf32>, tensor<4xi64>) -> (tensor<50x8xf32>, tensor<4x8xf32>)
  return
}
