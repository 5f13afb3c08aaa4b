// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// all_reduce C1: several ranks.
func.func @case(%x: tensor<8xf32>) {
  // expected-error @+1 {{expects 2 ranks or more, found 1}}
  %y = stow.all_reduce %x {ranks = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// all_reduce C2: f32.
func.func @case(%x: tensor<8xbf16>) {
  // expected-error @+1 {{expects x of f32 and y of its type, found 'tensor<8xbf16>' and 'tensor<8xbf16>'}}
  %y = stow.all_reduce %x {ranks = 2 : i64} : (tensor<8xbf16>) -> tensor<8xbf16>
  return
}

// -----

// all_reduce C2: one type.
func.func @case(%x: tensor<8xf32>) {
  // expected-error @+1 {{expects x of f32 and y of its type, found 'tensor<8xf32>' and 'tensor<2x4xf32>'}}
  %y = stow.all_reduce %x {ranks = 2 : i64} : (tensor<8xf32>) -> tensor<2x4xf32>
  return
}
