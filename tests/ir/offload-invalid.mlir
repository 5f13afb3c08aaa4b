// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// copy_out C1: the type of tokens.
func.func @case(%x: tensor<4xf32>) {
  // expected-error @+1 {{'stow.copy_out' op expects a token of type 'tensor<0xi8>', found 'tensor<1xi8>'}}
  %0 = stow.copy_out %x : (tensor<4xf32>) -> tensor<1xi8>
  return
}

// -----

// await_out C1: the token of a copy out, of the same value.
func.func @case(%x: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<0xi8>) {
  // expected-error @+1 {{'stow.await_out' op expects the token of a copy out of the same value}}
  stow.await_out %t, %x : (tensor<0xi8>, tensor<4xf32>) -> ()
  return
}

// -----

func.func @case(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %t = stow.copy_out %x : (tensor<4xf32>) -> tensor<0xi8>
  // expected-error @+1 {{'stow.await_out' op expects the token of a copy out of the same value}}
  stow.await_out %t, %y : (tensor<0xi8>, tensor<4xf32>) -> ()
  return
}

// -----

// copy_in C1: the token of a copy out, of a tensor of its type.
func.func @case(%t: tensor<0xi8>) {
  // expected-error @+1 {{'stow.copy_in' op expects the token of a copy out}}
  %0 = stow.copy_in %t : (tensor<0xi8>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<4xf32>) {
  %t = stow.copy_out %x : (tensor<4xf32>) -> tensor<0xi8>
  // expected-error @+1 {{'stow.copy_in' op copies in 'tensor<8xf32>' what was copied out as 'tensor<4xf32>'}}
  %0 = stow.copy_in %t : (tensor<0xi8>) -> tensor<8xf32>
  return
}

// -----

// await_in C1: what a copy in from the same token brings, and its type.
func.func @case(%x: tensor<4xf32>) {
  %t = stow.copy_out %x : (tensor<4xf32>) -> tensor<0xi8>
  %u = stow.copy_out %x : (tensor<4xf32>) -> tensor<0xi8>
  %0 = stow.copy_in %t : (tensor<0xi8>) -> tensor<4xf32>
  // expected-error @+1 {{'stow.await_in' op expects what a copy in from the same token brings}}
  %1 = stow.await_in %u, %0 : (tensor<0xi8>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<4xf32>) {
  %t = stow.copy_out %x : (tensor<4xf32>) -> tensor<0xi8>
  // expected-error @+1 {{'stow.await_in' op expects what a copy in from the same token brings}}
  %1 = stow.await_in %t, %x : (tensor<0xi8>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<4xf32>) {
  %t = stow.copy_out %x : (tensor<4xf32>) -> tensor<0xi8>
  %0 = stow.copy_in %t : (tensor<0xi8>) -> tensor<4xf32>
  // expected-error @+1 {{'stow.await_in' op expects a result of type 'tensor<4xf32>', found 'tensor<2x2xf32>'}}
  %1 = stow.await_in %t, %0 : (tensor<0xi8>, tensor<4xf32>) -> tensor<2x2xf32>
  return
}
