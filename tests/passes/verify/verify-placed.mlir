// RUN: stowage-opt %s --stow-verify-placed --split-input-file --verify-diagnostics

// Tests that a sound plan passes. Bytes of the arena of 256:
//
//     0      64      128       192      256
//     | w    | x, y  | t       | scratch |        y overwrites x; t is a view's base
module attributes {stow.form = "placed", stow.arena_bytes = 256 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<16xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.softmax %x {axis = 1 : i64, stow.in_place = array<i64: 0, 0>, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = stow.matmul %y, %w {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 128>, stow.workspace = 64 : i64, stow.workspace_offset = 192 : i64}
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %v = stow.reshape %t : (tensor<4x4xf32>) -> tensor<16xf32>
    %w1 = stow.map %w, %y {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.subf %a, %b : f32
      stow.yield %0 : f32
    }
    return %v, %w1 : tensor<16xf32>, tensor<4x4xf32>
  }
  func.func @eval(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.softmax %w {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}

// -----

// P1: the module's attributes.
// expected-error @+1 {{expects stow.form = "placed", stow.arena_bytes and stow.alignment; run stow-pack-buffers first}}
module attributes {stow.form = "ordered", stow.arena_bytes = 256 : i64, stow.alignment = 64 : i64} {
}

// -----

// expected-error @+1 {{expects stow.form = "placed", stow.arena_bytes and stow.alignment; run stow-pack-buffers first}}
module attributes {stow.form = "placed", stow.arena_bytes = 256 : i64, stow.alignment = 0 : i64} {
}

// -----

// P1: offsets are missing: of an argument, of a result, of scratch; there are too few.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{argument 0 lacks stow.offset, stow.name or stow.kind; run stow-pack-buffers first}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) attributes {stow.role = #stow.role<train>} {
    return
  }
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}, %l: tensor<4xi64> {stow.name = "l", stow.kind = #stow.kind<input>, stow.offset = 64 : i64}) attributes {stow.role = #stow.role<eval>} {
    // expected-error @+1 {{lacks stow.offsets for its 1 results}}
    %a = stow.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{lacks stow.offsets for its 2 results}}
    %b, %c = stow.cross_entropy_rows %x, %l {ignore_index = -100 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
    // expected-error @+1 {{lacks stow.workspace_offset}}
    %d = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 256>, stow.workspace = 64 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// P1: 64 bytes at 192 end at 256, one byte above the arena; and negative.
module attributes {stow.form = "placed", stow.arena_bytes = 255 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{result at [192, 256) lies outside the arena of 255 bytes}}
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{result at [-64, 0) lies outside the arena of 255 bytes}}
    %b = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: -64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{workspace at [192, 292) lies outside the arena of 255 bytes}}
    %d = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 128>, stow.workspace = 100 : i64, stow.workspace_offset = 192 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// P1: alignment.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{y at 96 is not aligned to 64 bytes}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
      %y: tensor<4x4xf32> {stow.name = "y", stow.kind = #stow.kind<input>, stow.offset = 96 : i64}) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{result at 200 is not aligned to 64 bytes}}
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 200>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{workspace at 513 is not aligned to 64 bytes}}
    %d = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 128>, stow.workspace = 100 : i64, stow.workspace_offset = 513 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// P1: workspaces may have to begin at larger multiples than other buffers.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64, stow.workspace_alignment = 256 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 64 : i64}) attributes {stow.role = #stow.role<train>} {
    %a = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 128>, stow.workspace = 100 : i64, stow.workspace_offset = 512 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{workspace at 448 is not aligned to 256 bytes}}
    %b = stow.matmul %a, %a {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 192>, stow.workspace = 100 : i64, stow.workspace_offset = 448 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// expected-error @+1 {{stow.workspace_alignment is 0; expected 1 or more}}
module attributes {stow.form = "placed", stow.arena_bytes = 256 : i64, stow.alignment = 64 : i64, stow.workspace_alignment = 0 : i64} {
}

// -----

// P2: %a at [64, 128) is overwritten in its first bytes by %b, in its last by %d, wholly by scratch.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 16 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.reduce_sum %x {axes = array<i64: 1>, keepdims = false, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{operand 0 at [64, 128) has been overwritten before this op reads it}}
    %c = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %d = stow.reduce_sum %x {axes = array<i64: 1>, keepdims = false, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4xf32>
    return
  }
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) attributes {stow.role = #stow.role<eval>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.reduce_sum %x {axes = array<i64: 1>, keepdims = false, stow.offsets = array<i64: 112>} : (tensor<4x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{operand 0 at [64, 128) has been overwritten before this op reads it}}
    %c = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %d = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 320>, stow.workspace = 512 : i64, stow.workspace_offset = 384 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = stow.softmax %d {axis = 1 : i64, stow.offsets = array<i64: 400>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %f = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 320>, stow.workspace = 512 : i64, stow.workspace_offset = 384 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{operand 0 at [400, 464) has been overwritten before this op reads it}}
    %g = stow.softmax %e {axis = 1 : i64, stow.offsets = array<i64: 512>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// P2: a view dies with what it looks at; an output must be whole at the end.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) -> (tensor<16xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %v = stow.reshape %a : (tensor<4x4xf32>) -> tensor<16xf32>
    %b = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{operand 0 at [64, 128) has been overwritten before this op reads it}}
    return %v : tensor<16xf32>
  }
}

// -----

// P3: a library call writes over an operand it reads; softmax shifted by half its operand;
// an update elsewhere than its operand.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 32 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}, %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 128 : i64}) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{result 0 overwrites operand 1 while the op reads it}}
    %a = stow.matmul %w, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{result 0 overwrites operand 0 while the op reads it}}
    %b = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{result 0 must lie where operand 0 lies}}
    %c = stow.map %w {updates = array<i64: 0, 0>, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    return
  }
}

// -----

// P3: two results in one place; scratch on an operand; scratch on a result.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}, %l: tensor<4xi64> {stow.name = "l", stow.kind = #stow.kind<input>, stow.offset = 64 : i64}) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{two results overlap in the arena}}
    %b, %c = stow.cross_entropy_rows %x, %l {ignore_index = -100 : i64, stow.offsets = array<i64: 128, 128>} : (tensor<4x4xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
    // expected-error @+1 {{workspace overlaps an operand}}
    %d = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 256>, stow.workspace = 4 : i64, stow.workspace_offset = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{workspace overlaps a result}}
    %e = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 256>, stow.workspace = 100 : i64, stow.workspace_offset = 192 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// P6: the scratch of an op that can run in several ways is that of the one it runs in.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) attributes {stow.role = #stow.role<eval>} {
    // expected-error @+1 {{has a workspace of 64 bytes, which is not that of its implementation 1}}
    %a = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 64>, stow.workspace = 64 : i64, stow.workspace_offset = 384 : i64,
        stow.implementations = [{name = "fast", workspace = 64 : i64, slowdown = 1.0 : f64}, {name = "lean", workspace = 0 : i64, slowdown = 1.5 : f64}],
        stow.implementation = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{names none of its 1 implementations}}
    %b = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.offsets = array<i64: 128>, stow.workspace = 64 : i64, stow.workspace_offset = 384 : i64,
        stow.implementations = [{name = "fast", workspace = 64 : i64, slowdown = 1.0 : f64}], stow.implementation = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// P3: arguments on top of each other: [0, 64) and [32, 96).
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 32 : i64} {
  // expected-error @+1 {{arguments "y" and "x" overlap in the arena}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}, %y: tensor<4x4xf32> {stow.name = "y", stow.kind = #stow.kind<input>, stow.offset = 32 : i64}) attributes {stow.role = #stow.role<train>} {
    return
  }
}

// -----

// P4: state moves between the graphs.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  func.func @train(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64}) attributes {stow.role = #stow.role<train>} {
    return
  }
  // expected-error @+1 {{state "w" lies at 64 here and at 0 in another graph}}
  func.func @eval(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 64 : i64}) attributes {stow.role = #stow.role<eval>} {
    return
  }
}

// -----

// P4: an activation on top of state, which nothing reads afterwards in this step.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{state "w" is overwritten, and not by its new value}}
  func.func @eval(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.softmax %w {axis = 1 : i64, stow.in_place = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}

// -----

// P4: the new value lies elsewhere; the new value is destroyed before the end.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{the new value of state "w" does not lie where the state lies}}
  func.func @train(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64}) -> (tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.softmax %w {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
  func.func @eval(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64}, %x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 64 : i64}) -> (tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<eval>} {
    %w1 = stow.map %w {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    %y = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{operand 0 at [0, 64) has been overwritten before this op reads it}}
    return %w1 : tensor<4x4xf32>
  }
}

// -----

// Tests that stow.in_place is not needed here: the replay goes by bytes. x + x on top of x, read twice.
module attributes {stow.form = "placed", stow.arena_bytes = 64 : i64, stow.alignment = 64 : i64} {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.map %x, %x {stow.offsets = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.addf %a, %b : f32
      stow.yield %0 : f32
    }
    return %y : tensor<4x4xf32>
  }
}

// -----

// Tests that parts of a concat pass: a and b interleave in y, c is copied beside them, and what is
// read of y later is the columns of b. Bytes of the arena of 512, one row of y is 48 bytes:
//
//     0       64  80  96 104 112        304      384
//     | x     | a | b | c | a | b | c ...| c0    | t
module attributes {stow.form = "placed", stow.arena_bytes = 512 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a, %b = stow.map %x {stow.offsets = array<i64: 64, 80>}
        : (tensor<4x4xf32>) -> (tensor<4x4xf32, #stow.layout<"of 1:12">>, tensor<4x4xf32, #stow.layout<"of 1:12">>) {
    ^bb0(%e: f32):
      stow.yield %e, %e : f32, f32
    }
    %c = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 320>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = stow.concat %a, %b, %c {axis = 1 : i64, stow.inside = array<i64: 0, 1>, stow.offsets = array<i64: 64>}
        : (tensor<4x4xf32, #stow.layout<"of 1:12">>, tensor<4x4xf32, #stow.layout<"of 1:12">>, tensor<4x4xf32>) -> tensor<4x12xf32>
    %s = stow.slice %y {starts = array<i64: 0, 4>, sizes = array<i64: 4, 4>, stow.inside = array<i64: 0>} : (tensor<4x12xf32>) -> tensor<4x4xf32, #stow.layout<"of 1:12">>
    %t = stow.map %s {stow.offsets = array<i64: 384>} : (tensor<4x4xf32, #stow.layout<"of 1:12">>) -> tensor<4x4xf32> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    return %t : tensor<4x4xf32>
  }
}

// -----

// P2: one part is overwritten, by 8 bytes of it, before the whole is read; the other part is not.
module attributes {stow.form = "placed", stow.arena_bytes = 512 : i64, stow.alignment = 8 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) -> (tensor<4x8xf32> {stow.name = "y"}, tensor<2xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %a, %b = stow.map %x {stow.offsets = array<i64: 64, 80>}
        : (tensor<4x4xf32>) -> (tensor<4x4xf32, #stow.layout<"of 1:8">>, tensor<4x4xf32, #stow.layout<"of 1:8">>) {
    ^bb0(%e: f32):
      stow.yield %e, %e : f32, f32
    }
    // The last 8 bytes of the second row of b, which is at [112, 128).
    %z = stow.map {stow.offsets = array<i64: 120>} : () -> tensor<2xf32> {
      %0 = arith.constant 0.0 : f32
      stow.yield %0 : f32
    }
    // expected-error @+1 {{operand 1 at [80, 192) has been overwritten before this op reads it}}
    %y = stow.concat %a, %b {axis = 1 : i64, stow.inside = array<i64: 0, 1>}
        : (tensor<4x4xf32, #stow.layout<"of 1:8">>, tensor<4x4xf32, #stow.layout<"of 1:8">>) -> tensor<4x8xf32>
    return %y, %z : tensor<4x8xf32>, tensor<2xf32>
  }
}

// -----

// P2: the whole is read after one of its parts went.
module attributes {stow.form = "placed", stow.arena_bytes = 512 : i64, stow.alignment = 16 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) -> (tensor<4x8xf32> {stow.name = "y"}, tensor<4xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %a, %b = stow.map %x {stow.offsets = array<i64: 64, 80>}
        : (tensor<4x4xf32>) -> (tensor<4x4xf32, #stow.layout<"of 1:8">>, tensor<4x4xf32, #stow.layout<"of 1:8">>) {
    ^bb0(%e: f32):
      stow.yield %e, %e : f32, f32
    }
    %y = stow.concat %a, %b {axis = 1 : i64, stow.inside = array<i64: 0, 1>}
        : (tensor<4x4xf32, #stow.layout<"of 1:8">>, tensor<4x4xf32, #stow.layout<"of 1:8">>) -> tensor<4x8xf32>
    %z = stow.map {stow.offsets = array<i64: 160>} : () -> tensor<4xf32> {
      %0 = arith.constant 0.0 : f32
      stow.yield %0 : f32
    }
    // expected-error @+1 {{operand 0 at [64, 192) has been overwritten before this op reads it}}
    return %y, %z : tensor<4x8xf32>, tensor<4xf32>
  }
}

// -----

// P3: parts overlap. Columns 2 to 5 and 4 to 7 share two; so do a part and the next row of the other.
module attributes {stow.form = "placed", stow.arena_bytes = 512 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) -> (tensor<4x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{two results overlap in the arena}}
    %a, %b = stow.map %x {stow.offsets = array<i64: 72, 80>}
        : (tensor<4x4xf32>) -> (tensor<4x4xf32, #stow.layout<"of 1:8">>, tensor<4x4xf32, #stow.layout<"of 1:8">>) {
    ^bb0(%e: f32):
      stow.yield %e, %e : f32, f32
    }
    %y = stow.concat %a, %b {axis = 1 : i64, stow.inside = array<i64: 0, 1>}
        : (tensor<4x4xf32, #stow.layout<"of 1:8">>, tensor<4x4xf32, #stow.layout<"of 1:8">>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) -> (tensor<4x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    // expected-error @+1 {{two results overlap in the arena}}
    %a, %b = stow.map %x {stow.offsets = array<i64: 100, 80>}
        : (tensor<4x4xf32>) -> (tensor<4x4xf32, #stow.layout<"of 1:8">>, tensor<4x4xf32, #stow.layout<"of 1:8">>) {
    ^bb0(%e: f32):
      stow.yield %e, %e : f32, f32
    }
    %y = stow.concat %a, %b {axis = 1 : i64, stow.inside = array<i64: 0, 1>}
        : (tensor<4x4xf32, #stow.layout<"of 1:8">>, tensor<4x4xf32, #stow.layout<"of 1:8">>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

// P3: a concat copies over what it reads. P5: a part lies elsewhere, has other strides, or gaps that
// no concat fills.
module attributes {stow.form = "placed", stow.arena_bytes = 1024 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{overwrites operand 1 while it copies another}}
    %p = stow.concat %a, %b {axis = 0 : i64, stow.inside = array<i64: 0>, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error @+1 {{input 1 lies at [128, 192) and not inside the result, where it belongs, at [320, 384)}}
    %q = stow.concat %a, %b {axis = 0 : i64, stow.inside = array<i64: 1>, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error @+1 {{lists 1 as inside; expected each of its 2 inputs at most once}}
    %r = stow.concat %a, %b {axis = 0 : i64, stow.inside = array<i64: 1, 1>, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error @+1 {{is a view, but the strides of 'tensor<4x2xf32>' are not those of its operand}}
    %s = stow.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 4, 2>, stow.inside = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x2xf32>
    // expected-error @+1 {{result 0 has gaps but lies inside no concat}}
    %t = stow.map %x {stow.offsets = array<i64: 512>} : (tensor<4x4xf32>) -> tensor<4x4xf32, #stow.layout<"of 1:8">> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    return %a : tensor<4x4xf32>
  }
}

// -----

// Tests parts with gaps at two levels: %i joins rows of %c and %d and lies in the left columns of %y,
// beside %b. Floats of the first of two matrices of 2 x 4, from byte 64 on:
//
//     c c b b
//     d d b b
//
// No two of them share a byte, though the ranges of c, d and b overlap. So does a part of %y that is
// taken out again, whose operand dies before a view that nothing reads.
module attributes {stow.form = "placed", stow.arena_bytes = 512 : i64, stow.alignment = 64 : i64} {
  func.func @train(%p: tensor<2x1x2xf32> {stow.name = "p", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
      %b0: tensor<2x2x2xf32> {stow.name = "b0", stow.kind = #stow.kind<input>, stow.offset = 128 : i64}) -> (tensor<2x2x2xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %b = stow.map %b0 {stow.offsets = array<i64: 72>} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32, #stow.layout<"of 2:4">> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    %i = stow.concat %p, %p {axis = 1 : i64, stow.offsets = array<i64: 64>}
        : (tensor<2x1x2xf32>, tensor<2x1x2xf32>) -> tensor<2x2x2xf32, #stow.layout<"of 2:4">>
    %y = stow.concat %i, %b {axis = 2 : i64, stow.inside = array<i64: 0, 1>}
        : (tensor<2x2x2xf32, #stow.layout<"of 2:4">>, tensor<2x2x2xf32, #stow.layout<"of 2:4">>) -> tensor<2x2x4xf32>
    %z = stow.softmax %y {axis = 2 : i64, stow.in_place = array<i64: 0, 0>, stow.offsets = array<i64: 64>} : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    %v = stow.slice %y {starts = array<i64: 0, 0, 0>, sizes = array<i64: 2, 2, 2>, stow.inside = array<i64: 0>} : (tensor<2x2x4xf32>) -> tensor<2x2x2xf32, #stow.layout<"of 2:4">>
    %w = stow.slice %z {starts = array<i64: 0, 0, 0>, sizes = array<i64: 2, 2, 2>, stow.offsets = array<i64: 256>} : (tensor<2x2x4xf32>) -> tensor<2x2x2xf32>
    return %w : tensor<2x2x2xf32>
  }
}

// -----

// P2: the same, %i shifted by one float: its second column lies on the first of %b.
module attributes {stow.form = "placed", stow.arena_bytes = 512 : i64, stow.alignment = 4 : i64} {
  func.func @train(%p: tensor<2x1x2xf32> {stow.name = "p", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
      %b0: tensor<2x2x2xf32> {stow.name = "b0", stow.kind = #stow.kind<input>, stow.offset = 128 : i64}) -> (tensor<2x2x2xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %b = stow.map %b0 {stow.offsets = array<i64: 72>} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32, #stow.layout<"of 2:4">> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    %i = stow.concat %p, %p {axis = 1 : i64, stow.offsets = array<i64: 68>}
        : (tensor<2x1x2xf32>, tensor<2x1x2xf32>) -> tensor<2x2x2xf32, #stow.layout<"of 2:4">>
    // expected-error @+1 {{operand 1 at [72, 128) has been overwritten before this op reads it}}
    %y = stow.concat %i, %b {axis = 2 : i64, stow.inside = array<i64: 0, 1>}
        : (tensor<2x2x2xf32, #stow.layout<"of 2:4">>, tensor<2x2x2xf32, #stow.layout<"of 2:4">>) -> tensor<2x2x4xf32>
    return %b0 : tensor<2x2x2xf32>
  }
}

// -----

// P1: each function has a role of its own; names are free.
module attributes {stow.form = "placed", stow.arena_bytes = 256 : i64, stow.alignment = 64 : i64} {
  func.func @a() attributes {stow.role = #stow.role<train>} { return }
  func.func @b() attributes {stow.role = #stow.role<accumulate>} { return }
  func.func @c() attributes {stow.role = #stow.role<commit>} { return }
  // expected-error @+1 {{@eval has the role commit, as @c has; each role has one function}}
  func.func @eval() attributes {stow.role = #stow.role<commit>} { return }
  func.func @other_shape() attributes {stow.role = #stow.role<commit>, stow.shape = "sequence=8"} { return }
  // expected-error @+1 {{@again has the role commit, as @other_shape has; each role has one function}}
  func.func @again() attributes {stow.role = #stow.role<commit>, stow.shape = "sequence=8"} { return }
  // expected-error @+1 {{@none has no stow.role; form "placed" expects one of train, eval, accumulate, commit, measure}}
  func.func @none() { return }
  // expected-error @+1 {{@model has the role model; form "placed" expects one of train, eval, accumulate, commit, measure}}
  func.func @model() attributes {stow.role = #stow.role<model>} { return }
}

// -----

// P7: ops of one launch touch nothing that another of them writes: the second reads the first one's result, the
// fourth overwrites what the third reads, the sixth writes into the fifth's scratch; and there is a launch to run in.
module attributes {stow.form = "placed", stow.arena_bytes = 256 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64}) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{runs in the launch of the op before it, and that is none}}
    %z = stow.softmax %x {axis = 1 : i64, stow.together, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{touches what another op of its launch writes}}
    %b = stow.softmax %a {axis = 1 : i64, stow.together, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{touches what another op of its launch writes}}
    %d = stow.softmax %c {axis = 1 : i64, stow.in_place = array<i64: 0, 0>, stow.together, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = stow.matmul %x, %x {transpose_a = true, transpose_b = false, stow.offsets = array<i64: 64>, stow.workspace = 64 : i64, stow.workspace_offset = 128 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{touches what another op of its launch writes}}
    %f = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false, stow.together, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

// P8: what an input reads next may come where a was, once b is written. Bytes of the arena of 384:
//
//     0    64   128  192  256  320
//     | w  | x  | a  | b  | c  |    |
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 128 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// P8: also where nothing ever is, from the beginning.
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 320 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// P8: a is read by the op from which on it may come.
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 128 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{operand 0 at [128, 192) has been overwritten before this op reads it}}
    %b = stow.softmax %a {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// P8: b is written later.
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{the next "x" at [192, 256) may have come and is overwritten}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 192 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// P8: the output is there.
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{the next "x" at [256, 320) may have come and is overwritten}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 256 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// P8: scratch of a later command takes it.
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{the next "x" at [320, 384) may have come and is overwritten}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 320 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.workspace = 64 : i64, stow.workspace_offset = 320 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// P8: outside the arena, or not aligned.
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 384 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{a next input at [384, 448) lies outside the arena of 384 bytes}}
    %c = stow.softmax %b {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

module attributes {stow.form = "placed", stow.arena_bytes = 448 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 352 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{a next input at 352 is not aligned to 64 bytes}}
    %c = stow.softmax %b {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// P8: no op, two ops, no place, an op that launches nothing.
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{has places for next inputs, and no op has stow.next_inputs}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 320 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 320 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{lets the next inputs come, and an op before it does, too}}
    %c = stow.softmax %b {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{lets the next inputs come, and no argument has stow.next_offset}}
    %a = stow.softmax %x {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// P8: it lies on its own place, or on that of another graph's input: it is brought there later.
module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{the next "x" lies where argument "x" lies}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 64 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

module attributes {stow.form = "placed", stow.arena_bytes = 384 : i64, stow.alignment = 64 : i64} {
  // expected-error @+1 {{the next "x" lies where argument "z" lies}}
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.next_offset = 320 : i64, stow.offset = 64 : i64},
      %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.next_inputs, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
  func.func @eval(%z: tensor<4x4xf32> {stow.name = "z", stow.kind = #stow.kind<input>, stow.offset = 320 : i64}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    return %z : tensor<4x4xf32>
  }
}
