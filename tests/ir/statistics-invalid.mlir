// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// batch_norm_statistics C1: x has channels.
func.func @case(%x: tensor<8xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{expects x of rank 2 or more, found 'tensor<8xf32>'}}
  %m, %v, %k = stow.batch_norm_statistics %x, %s {epsilon = 1.0e-5 : f64} : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_statistics C2: scale has an element per channel.
func.func @case(%x: tensor<2x8x7x6xf32>, %s: tensor<7xf32>) {
  // expected-error @+1 {{expects vectors of 8 elements, one per channel, found 'tensor<7xf32>'}}
  %m, %v, %k = stow.batch_norm_statistics %x, %s {epsilon = 1.0e-5 : f64} : (tensor<2x8x7x6xf32>, tensor<7xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// batch_norm_statistics C2: so has the slope.
func.func @case(%x: tensor<2x8x7x6xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{expects vectors of 8 elements, one per channel, found 'tensor<6xf32>'}}
  %m, %v, %k = stow.batch_norm_statistics %x, %s {epsilon = 1.0e-5 : f64} : (tensor<2x8x7x6xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<6xf32>)
  return
}
