// RUN: stowage-opt %s --stow-verify-placed --split-input-file --verify-diagnostics

// Collectives that run beside other ops. Values of 4096 bytes, an arena of four such places.

// Tests that a sound plan passes: what is computed meanwhile touches neither.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.in_place = array<i64: 0, 0>, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %u = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %s = stow.await_reduce %c {stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %y = stow.softmax %s {axis = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %y, %w : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// A shard of a sum, and a parameter that is put together.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.reduce_scatter %a {ranks = 2 : i64, stow.started, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<512xf32>
    %u = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %s = stow.await_reduce %c, %a {stow.offsets = array<i64: 8192>} : (tensor<512xf32>, tensor<1024xf32>) -> tensor<512xf32>
    %n = stow.all_gather %s, %w {ranks = 2 : i64, stow.started, stow.offsets = array<i64: 12288>} : (tensor<512xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %y = stow.softmax %u {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    stow.await_gather %n, %s : (tensor<1024xf32>, tensor<512xf32>) -> ()
    return %y, %n : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// P10: nobody writes where a sum is made.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-note @+1 {{started here}}
    %c = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.in_place = array<i64: 0, 0>, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{writes [4096, 8192) while a collective under way writes there, too}}
    %u = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %s = stow.await_reduce %c {stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %s, %w : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// P10: nobody writes what a sum of shards still reads.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-note @+1 {{started here}}
    %c = stow.reduce_scatter %a {ranks = 2 : i64, stow.started, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<512xf32>
    // expected-error @+1 {{writes [4096, 8192) while a collective under way reads there}}
    %u = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %s = stow.await_reduce %c, %a {stow.offsets = array<i64: 8192>} : (tensor<512xf32>, tensor<1024xf32>) -> tensor<512xf32>
    return %x, %w : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// P10: scratch is written, too.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-note @+1 {{started here}}
    %c = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.in_place = array<i64: 0, 0>, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{writes [4096, 4160) while a collective under way writes there, too}}
    %u = stow.softmax %x {axis = 0 : i64, stow.workspace = 64 : i64, stow.workspace_offset = 4096 : i64, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %s = stow.await_reduce %c {stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %s, %w : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// P10: nobody reads the parameter that is put together.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.reduce_scatter %a {ranks = 2 : i64, stow.started, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<512xf32>
    %s = stow.await_reduce %c, %a {stow.offsets = array<i64: 8192>} : (tensor<512xf32>, tensor<1024xf32>) -> tensor<512xf32>
    // expected-note @+1 {{started here}}
    %n = stow.all_gather %s, %w {ranks = 2 : i64, stow.started, stow.offsets = array<i64: 12288>} : (tensor<512xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{reads [12288, 16384) while a collective under way writes there}}
    %y = stow.softmax %n {axis = 0 : i64, stow.offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<1024xf32>
    stow.await_gather %n, %s : (tensor<1024xf32>, tensor<512xf32>) -> ()
    return %y, %n : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// P10: every collective is awaited.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.reduce_scatter %a {ranks = 2 : i64, stow.started, stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<512xf32>
    %s = stow.await_reduce %c, %a {stow.offsets = array<i64: 8192>} : (tensor<512xf32>, tensor<1024xf32>) -> tensor<512xf32>
    // expected-error @+2 {{starts a collective that nothing awaits}}
    // expected-note @+1 {{started here}}
    %n = stow.all_gather %s, %w {ranks = 2 : i64, stow.started, stow.offsets = array<i64: 12288>} : (tensor<512xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{reads [12288, 16384) while a collective under way writes there}}
    return %x, %n : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// P10: a workspace would end with the command that starts.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{is started and has a workspace, which ends with its command}}
    %c = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.workspace = 64 : i64, stow.workspace_offset = 8192 : i64, stow.in_place = array<i64: 0, 0>, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %x, %w : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

// P10: what comes is not moved.
module attributes {stow.form = "placed", stow.arena_bytes = 16384 : i64, stow.alignment = 64 : i64, stow.devices = 2 : i64} {
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 12288 : i64})
      -> (tensor<1024xf32> {stow.name = "y"}, tensor<1024xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.all_reduce %a {ranks = 2 : i64, stow.started, stow.in_place = array<i64: 0, 0>, stow.offsets = array<i64: 4096>} : (tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{result 0 must lie where operand 0 lies}}
    %s = stow.await_reduce %c {stow.offsets = array<i64: 8192>} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %x, %w : tensor<1024xf32>, tensor<1024xf32>
  }
}
