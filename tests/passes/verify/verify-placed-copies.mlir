// RUN: stowage-opt %s --stow-verify-placed --split-input-file --verify-diagnostics

// Copies between the arena and slow memory. Values of 4096 bytes, an arena of four such places.

// Tests that a sound plan passes: b takes the place of a, which travels and comes back twice, to other places.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    %u = stow.softmax %a {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %b = stow.softmax %u {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.copy_in %t {stow.offsets = array<i64: 12288>} : (tensor<0xi8>) -> tensor<1024xf32>
    %d = stow.softmax %b {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %e = stow.await_in %t, %c {stow.offsets = array<i64: 12288>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    %f = stow.softmax %e {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %g = stow.copy_in %t {stow.offsets = array<i64: 8192>} : (tensor<0xi8>) -> tensor<1024xf32>
    %h = stow.await_in %t, %g {stow.offsets = array<i64: 8192>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    %z = stow.softmax %h {axis = 0 : i64, stow.offsets = array<i64: 12288>} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

// P9: nobody writes what a copy out still reads.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    // expected-error @+1 {{writes [4096, 8192) while a copy out is under way there}}
    %b = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %c = stow.copy_in %t {stow.offsets = array<i64: 8192>} : (tensor<0xi8>) -> tensor<1024xf32>
    %z = stow.await_in %t, %c {stow.offsets = array<i64: 8192>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

// P9: scratch is written, too.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    // expected-error @+1 {{writes [4096, 4160) while a copy out is under way there}}
    %b = stow.softmax %x {axis = 0 : i64, stow.workspace = 64 : i64, stow.workspace_offset = 4096 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %c = stow.copy_in %t {stow.offsets = array<i64: 8192>} : (tensor<0xi8>) -> tensor<1024xf32>
    %z = stow.await_in %t, %c {stow.offsets = array<i64: 8192>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

// P9: nobody reads what a copy in still writes.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %c = stow.copy_in %t {stow.offsets = array<i64: 4096>} : (tensor<0xi8>) -> tensor<1024xf32>
    // expected-error @+1 {{reads [4096, 8192) while a copy in writes them}}
    %b = stow.softmax %c {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %z = stow.await_in %t, %c {stow.offsets = array<i64: 4096>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

// P9: nor writes it.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %c = stow.copy_in %t {stow.offsets = array<i64: 8192>} : (tensor<0xi8>) -> tensor<1024xf32>
    // expected-error @+1 {{writes [8192, 12288) while a copy in is under way there}}
    %b = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %z = stow.await_in %t, %c {stow.offsets = array<i64: 8192>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

// P2: a copy in overwrites what is read later.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %c = stow.copy_in %t {stow.offsets = array<i64: 8192>} : (tensor<0xi8>) -> tensor<1024xf32>
    %z = stow.await_in %t, %c {stow.offsets = array<i64: 8192>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{operand 0 at [8192, 12288) has been overwritten before this op reads it}}
    %d = stow.softmax %b {axis = 0 : i64, stow.offsets = array<i64: 12288>} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

// P9: slow bytes that another copy has overwritten are not fetched.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %b = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %u = stow.copy_out %b {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %u, %b : (tensor<0xi8>, tensor<1024xf32>) -> ()
    // expected-error @+1 {{fetches slow bytes that another copy out has overwritten}}
    %c = stow.copy_in %t {stow.offsets = array<i64: 12288>} : (tensor<0xi8>) -> tensor<1024xf32>
    %d = stow.copy_in %u {stow.offsets = array<i64: 12288>} : (tensor<0xi8>) -> tensor<1024xf32>
    %z = stow.await_in %u, %d {stow.offsets = array<i64: 12288>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

// P9: nor are those overwritten that a copy out still writes, or a copy in reads.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    %b = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{overwrites slow bytes of a copy that has not been awaited}}
    %u = stow.copy_out %b {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %d = stow.copy_in %t {stow.offsets = array<i64: 12288>} : (tensor<0xi8>) -> tensor<1024xf32>
    %z = stow.await_in %t, %d {stow.offsets = array<i64: 12288>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %c = stow.copy_in %t {stow.offsets = array<i64: 12288>} : (tensor<0xi8>) -> tensor<1024xf32>
    // expected-error @+1 {{overwrites slow bytes of a copy that has not been awaited}}
    %u = stow.copy_out %b {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    %z = stow.await_in %t, %c {stow.offsets = array<i64: 12288>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %z : tensor<1024xf32>
  }
}

// -----

// P9: places in slow memory: none, between blocks, outside.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{lacks stow.slow_offset}}
    %t = stow.copy_out %a {stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    // expected-error @+1 {{copies to [64, 8192) of slow memory, which has 8192 bytes; expected whole blocks of 4096 inside it}}
    %u = stow.copy_out %a {stow.slow_offset = 64 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    // expected-error @+1 {{copies to [8192, 12288) of slow memory, which has 8192 bytes; expected whole blocks of 4096 inside it}}
    %v = stow.copy_out %a {stow.slow_offset = 8192 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    return %a : tensor<1024xf32>
  }
}

// -----

// P9: each copy is awaited, once.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{starts a copy that nothing awaits}}
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    return %a : tensor<1024xf32>
  }
}

// -----

module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    // expected-error @+1 {{awaits a copy that is not under way}}
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    // expected-error @+1 {{starts a copy that nothing awaits}}
    %c = stow.copy_in %t {stow.offsets = array<i64: 8192>} : (tensor<0xi8>) -> tensor<1024xf32>
    return %a : tensor<1024xf32>
  }
}

// -----

module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %c = stow.copy_in %t {stow.offsets = array<i64: 8192>} : (tensor<0xi8>) -> tensor<1024xf32>
    %d = stow.await_in %t, %c {stow.offsets = array<i64: 8192>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{awaits a copy that is not under way}}
    %z = stow.await_in %t, %c {stow.offsets = array<i64: 8192>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %d : tensor<1024xf32>
  }
}

// -----

// P9: what has come lies where it came.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    // expected-error @+1 {{starts a copy that nothing awaits}}
    %c = stow.copy_in %t {stow.offsets = array<i64: 8192>} : (tensor<0xi8>) -> tensor<1024xf32>
    // expected-error @+1 {{result 0 must lie where operand 1 lies}}
    %z = stow.await_in %t, %c {stow.offsets = array<i64: 12288>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %a : tensor<1024xf32>
  }
}

// -----

// Tests that state in slow memory may be fetched at once, and replaced by a copy out to its place.
module attributes {stow.form = "placed", stow.arena_bytes = 8192 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  func.func @train(%m: tensor<0xi8> {stow.name = "m", stow.kind = #stow.kind<optimizer>, stow.offset = 0 : i64, stow.slow_state = tensor<1024xf32>, stow.slow_offset = 4096 : i64})
      -> (tensor<0xi8> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
    %c = stow.copy_in %m {stow.offsets = array<i64: 0>} : (tensor<0xi8>) -> tensor<1024xf32>
    %a = stow.await_in %m, %c {stow.offsets = array<i64: 0>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %a {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %b {stow.slow_offset = 4096 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %b : (tensor<0xi8>, tensor<1024xf32>) -> ()
    return %t : tensor<0xi8>
  }
}

// -----

// P9: the new value goes to another place.
module attributes {stow.form = "placed", stow.arena_bytes = 8192 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  // expected-error @+1 {{the new value of state "m" is not copied to its place in slow memory}}
  func.func @train(%m: tensor<0xi8> {stow.name = "m", stow.kind = #stow.kind<optimizer>, stow.offset = 0 : i64, stow.slow_state = tensor<1024xf32>, stow.slow_offset = 4096 : i64})
      -> (tensor<0xi8> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
    %c = stow.copy_in %m {stow.offsets = array<i64: 0>} : (tensor<0xi8>) -> tensor<1024xf32>
    %a = stow.await_in %m, %c {stow.offsets = array<i64: 0>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    return %t : tensor<0xi8>
  }
}

// -----

// P9: what travels for a while lies over state.
module attributes {stow.form = "placed", stow.arena_bytes = 8192 : i64, stow.alignment = 64 : i64, stow.slow_bytes = 8192 : i64} {
  // expected-error @+1 {{state "m" is overwritten in slow memory, and not by its new value}}
  func.func @train(%m: tensor<0xi8> {stow.name = "m", stow.kind = #stow.kind<frozen>, stow.offset = 0 : i64, stow.slow_state = tensor<1024xf32>, stow.slow_offset = 4096 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %c = stow.copy_in %m {stow.offsets = array<i64: 0>} : (tensor<0xi8>) -> tensor<1024xf32>
    %a = stow.await_in %m, %c {stow.offsets = array<i64: 0>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    %t = stow.copy_out %a {stow.slow_offset = 4096 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %d = stow.copy_in %t {stow.offsets = array<i64: 0>} : (tensor<0xi8>) -> tensor<1024xf32>
    %y = stow.await_in %t, %d {stow.offsets = array<i64: 0>} : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    return %y : tensor<1024xf32>
  }
}
