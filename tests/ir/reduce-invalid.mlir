// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// reduce C1: axes inside the rank.
func.func @case(%x: tensor<8x10xf32>) {
  // expected-error @+2 {{expects sorted, distinct axes of 'tensor<8x10xf32>', found [2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.reduce_sum %x {axes = array<i64: 2>, keepdims = false} : (tensor<8x10xf32>) -> tensor<8xf32>
  return
}

// -----

// reduce C1: axes sorted.
func.func @case(%x: tensor<8x10xf32>) {
  // expected-error @+2 {{expects sorted, distinct axes}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.reduce_mean %x {axes = array<i64: 1, 0>, keepdims = false} : (tensor<8x10xf32>) -> tensor<f32>
  return
}

// -----

// reduce C1: axes distinct.
func.func @case(%x: tensor<8x10xf32>) {
  // expected-error @+2 {{expects sorted, distinct axes}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.reduce_max %x {axes = array<i64: 1, 1>, keepdims = false} : (tensor<8x10xf32>) -> tensor<8xf32>
  return
}

// -----

// reduce: keepdims decides the rank.
func.func @case(%x: tensor<8x10xf32>) {
  // expected-error @+2 {{are incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<8x10xf32>) -> tensor<8xf32>
  return
}

// -----

// reduce: something to reduce.
func.func @case(%x: tensor<f32>) {
  // expected-error @+1 {{expects a tensor of rank 1 or more}}
  %0 = stow.reduce_sum %x {axes = array<i64>, keepdims = false} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// softmax C1: axis inside the rank.
func.func @case(%x: tensor<8x10xf32>) {
  // expected-error @+1 {{axis 2 lies outside rank 2}}
  %0 = stow.softmax %x {axis = 2 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>
  return
}

// -----

// log_softmax_grad C1: axis inside the rank.
func.func @case(%x: tensor<8x10xf32>) {
  // expected-error @+1 {{axis -1 lies outside rank 2}}
  %0 = stow.log_softmax_grad %x, %x {axis = -1 : i64} : (tensor<8x10xf32>, tensor<8x10xf32>) -> tensor<8x10xf32>
  return
}
