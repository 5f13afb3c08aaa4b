// RUN: stowage-opt %s --stow-verify-ordered --split-input-file --verify-diagnostics

// Tests that sums which are exchanged together pass, and a weight that begins before its place.
module attributes {stow.form = "ordered", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<512xf32> {stow.name = "w", stow.kind = #stow.kind<input>})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %ws = stow.unshard %w {ranks = 2 : i64, stow.started} : (tensor<512xf32>) -> tensor<1024xf32>
    %ca = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.with_next} : (tensor<1024xf32>) -> tensor<1024xf32>
    %cb = stow.all_reduce %b {ranks = 2 : i64, stow.started} : (tensor<1024xf32>) -> tensor<1024xf32>
    %there = stow.await_reduce %ws, %w : (tensor<1024xf32>, tensor<512xf32>) -> tensor<1024xf32>
    %y = stow.await_reduce %ca : (tensor<1024xf32>) -> tensor<1024xf32>
    %z = stow.await_reduce %cb : (tensor<1024xf32>) -> tensor<1024xf32>
    return %y, %z : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// O9: a weight is read behind its await.
module attributes {stow.form = "ordered", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<512xf32> {stow.name = "w", stow.kind = #stow.kind<input>})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{is started, and an op reads what it makes without an await}}
    %ws = stow.unshard %w {ranks = 2 : i64, stow.started} : (tensor<512xf32>) -> tensor<1024xf32>
    %y = stow.softmax %ws {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %z = stow.await_reduce %ws, %w : (tensor<1024xf32>, tensor<512xf32>) -> tensor<1024xf32>
    return %y, %z : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// O9: nobody awaits what is not started yet.
module attributes {stow.form = "ordered", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<512xf32> {stow.name = "w", stow.kind = #stow.kind<input>})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{is awaited before the sum that it is exchanged with has started}}
    %ca = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.with_next} : (tensor<1024xf32>) -> tensor<1024xf32>
    %y = stow.await_reduce %ca : (tensor<1024xf32>) -> tensor<1024xf32>
    %cb = stow.all_reduce %b {ranks = 2 : i64, stow.started} : (tensor<1024xf32>) -> tensor<1024xf32>
    %z = stow.await_reduce %cb : (tensor<1024xf32>) -> tensor<1024xf32>
    return %y, %z : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// O9: the next collective is a started sum.
module attributes {stow.form = "ordered", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<512xf32> {stow.name = "w", stow.kind = #stow.kind<input>})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{is exchanged with the next collective, which is no started sum}}
    %ca = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.with_next} : (tensor<1024xf32>) -> tensor<1024xf32>
    %z = stow.all_reduce %b {ranks = 2 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %y = stow.await_reduce %ca : (tensor<1024xf32>) -> tensor<1024xf32>
    return %y, %z : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// O9: there is one.
module attributes {stow.form = "ordered", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<512xf32> {stow.name = "w", stow.kind = #stow.kind<input>})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %z = stow.all_reduce %b {ranks = 2 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{is awaited before the sum that it is exchanged with has started}}
    %ca = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.with_next} : (tensor<1024xf32>) -> tensor<1024xf32>
    %y = stow.await_reduce %ca : (tensor<1024xf32>) -> tensor<1024xf32>
    return %y, %z : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// O9: other collectives pass alone.
module attributes {stow.form = "ordered", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<512xf32> {stow.name = "w", stow.kind = #stow.kind<input>})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{is exchanged with the next collective; only started sums are}}
    %z = stow.unshard %w {ranks = 2 : i64, stow.with_next} : (tensor<512xf32>) -> tensor<1024xf32>
    %y = stow.all_reduce %b {ranks = 2 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %y, %z : tensor<1024xf32>, tensor<1024xf32>
  }
}
