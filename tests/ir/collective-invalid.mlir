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

// -----

// reduce_scatter C1: several ranks.
func.func @case(%x: tensor<8xf32>) {
  // expected-error @+1 {{expects 2 ranks or more, found 1}}
  %y = stow.reduce_scatter %x {ranks = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// reduce_scatter C2: what the last rank lacks is filled up.
func.func @case(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{expects a shard of 'tensor<3x3xf32>' in f32, 'tensor<5xf32>', found 'tensor<4xf32>'}}
  %y = stow.reduce_scatter %x {ranks = 2 : i64} : (tensor<3x3xf32>) -> tensor<4xf32>
  return
}

// -----

// shard C1: several ranks.
func.func @case(%x: tensor<8xf32>) {
  // expected-error @+1 {{expects 2 ranks or more, found 0}}
  %y = stow.shard %x {ranks = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// shard C2: f32.
func.func @case(%x: tensor<8xbf16>) {
  // expected-error @+1 {{expects a shard of 'tensor<8xbf16>' in f32}}
  %y = stow.shard %x {ranks = 2 : i64} : (tensor<8xbf16>) -> tensor<4xbf16>
  return
}

// -----

// all_gather C1: several ranks.
func.func @case(%x: tensor<8xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{expects 2 ranks or more, found 1}}
  %y = stow.all_gather %x, %w {ranks = 1 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// all_gather C2: a row-major parameter.
func.func @case(%x: tensor<4xf32>, %w: tensor<2x4xf32, #stow.layout<"1,0">>) {
  // expected-error @+1 {{expects a row-major parameter}}
  %y = stow.all_gather %x, %w {ranks = 2 : i64} : (tensor<4xf32>, tensor<2x4xf32, #stow.layout<"1,0">>) -> tensor<2x4xf32, #stow.layout<"1,0">>
  return
}

// -----

// all_gather C3: the parameter's type.
func.func @case(%x: tensor<4xf32>, %w: tensor<2x4xf32>) {
  // expected-error @+1 {{expects a result of the parameter's type 'tensor<2x4xf32>', found 'tensor<8xf32>'}}
  %y = stow.all_gather %x, %w {ranks = 2 : i64} : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<8xf32>
  return
}

// -----

// await_reduce C1: what is awaited has been started.
func.func @case(%x: tensor<8xf32>) {
  %c = stow.all_reduce %x {ranks = 2 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{expects what a started all_reduce makes, or a started reduce_scatter or unshard and its operand}}
  %y = stow.await_reduce %c : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// await_reduce C1: a shard's sum is made of its operand until then.
func.func @case(%x: tensor<8xf32>) {
  %c = stow.reduce_scatter %x {ranks = 2 : i64, stow.started} : (tensor<8xf32>) -> tensor<4xf32>
  // expected-error @+1 {{expects what a started all_reduce makes, or a started reduce_scatter or unshard and its operand}}
  %y = stow.await_reduce %c : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// await_reduce C2: the type of what comes.
func.func @case(%x: tensor<8xf32>) {
  %c = stow.all_reduce %x {ranks = 2 : i64, stow.started} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{expects a result of type 'tensor<8xf32>', found 'tensor<2x4xf32>'}}
  %y = stow.await_reduce %c : (tensor<8xf32>) -> tensor<2x4xf32>
  return
}

// -----

// await_gather C1: the shard that is gathered.
func.func @case(%x: tensor<4xf32>, %z: tensor<4xf32>, %w: tensor<2x4xf32>) {
  %y = stow.all_gather %x, %w {ranks = 2 : i64, stow.started} : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // expected-error @+1 {{expects what a started all_gather makes, and the shard that it reads}}
  stow.await_gather %y, %z : (tensor<2x4xf32>, tensor<4xf32>) -> ()
  return
}

// -----

// unshard C2: a shard of the result.
func.func @case(%x: tensor<3xf32>) {
  // expected-error @+1 {{expects a shard of 'tensor<2x4xf32>' in f32, 'tensor<4xf32>', found 'tensor<3xf32>'}}
  %y = stow.unshard %x {ranks = 2 : i64} : (tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// unshard C1.
func.func @case(%x: tensor<8xf32>) {
  // expected-error @+1 {{expects 2 ranks or more, found 1}}
  %y = stow.unshard %x {ranks = 1 : i64} : (tensor<8xf32>) -> tensor<2x4xf32>
  return
}
