// RUN: stowage-opt %s --target=cuda:h100 --stow-fuse-bias-gradient --stow-verify-placed --split-input-file | FileCheck %s

// Tests that the bias's gradient is summed by the product that reads dy for the weight's, without scratch of its own, and that
// the bias's update, which stood between, waits. Every byte stays where it is; the arena of 1024:
//
//     0    256  320    576   832    896       1024
//     | w  | b  |  x   |  dy | db   | scratch |        dw comes where dy was read last: nothing but db lies at 832
//
// CHECK-LABEL: func.func @train
// CHECK: %[[DW:.*]] = stow.matmul
// CHECK-NEXT: %[[DB:.*]] = stow.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 832>, stow.together} :
// CHECK-NEXT: stow.map %{{.*}}, %[[DB]]
// CHECK: stow.map %{{.*}}, %[[DW]]
module attributes {stow.form = "placed", stow.arena_bytes = 1536 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 320 : i64, stow.lower_bound_bytes = 1024 : i64} {
  func.func @train(%x: tensor<8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 320 : i64},
      %w: tensor<8x8xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64},
      %b: tensor<8xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.offset = 256 : i64})
      -> (tensor<8x8xf32> {stow.state = "w"}, tensor<8xf32> {stow.state = "b"}) attributes {stow.role = #stow.role<train>} {
    %dy = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 576>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %db = stow.reduce_sum %dy {axes = array<i64: 0>, keepdims = false, stow.library_call, stow.offsets = array<i64: 832>, stow.workspace = 128 : i64, stow.workspace_offset = 896 : i64} : (tensor<8x8xf32>) -> tensor<8xf32>
    %b1 = stow.map %b, %db {updates = array<i64: 0, 0>, stow.offsets = array<i64: 256>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    %dw = stow.matmul %x, %dy {transpose_a = true, transpose_b = false, stow.offsets = array<i64: 1024>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %w1 = stow.map %w, %dw {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    return %w1, %b1 : tensor<8x8xf32>, tensor<8xf32>
  }
}

// -----

// Tests a sum behind its product, over two dimensions of a view, and with the left factor transposed: the view moves, too.
// CHECK-LABEL: func.func @train
// CHECK: %[[DY:.*]] = stow.softmax
// CHECK-NEXT: %[[VIEW:.*]] = stow.reshape %[[DY]]
// CHECK-NEXT: stow.matmul %[[DY]]
// CHECK-NEXT: stow.reduce_sum %[[VIEW]] {{.*}}stow.together
// CHECK-NEXT: stow.softmax
module attributes {stow.form = "placed", stow.arena_bytes = 1408 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 0 : i64, stow.lower_bound_bytes = 1024 : i64} {
  func.func @train(%x: tensor<8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64})
      -> (tensor<8x8xf32> {stow.name = "dw"}, tensor<8xf32> {stow.name = "db"}, tensor<8x8xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
    %dy = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 256>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %dw = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.offsets = array<i64: 512>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %z = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 768>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %view = stow.reshape %dy : (tensor<8x8xf32>) -> tensor<2x4x8xf32>
    %db = stow.reduce_sum %view {axes = array<i64: 0, 1>, keepdims = false, stow.offsets = array<i64: 1024>} : (tensor<2x4x8xf32>) -> tensor<8xf32>
    return %dw, %db, %z : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>
  }
}

// -----

// Tests that a sum whose bytes are the product's scratch by then goes where nothing is: behind state [0, 64), x, dy, dw and scratch
// [832, 1088). The live bytes rise by its 32, and the lower bound to them.
// CHECK: stow.lower_bound_bytes = 1120 : i64
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NEXT: %[[DB:.*]] = stow.reduce_sum %{{.*}} {{.*}}stow.offsets = array<i64: 1088>, stow.together
// CHECK-NEXT: stow.map %{{.*}}, %[[DB]]
module attributes {stow.form = "placed", stow.arena_bytes = 1120 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 64 : i64, stow.lower_bound_bytes = 1088 : i64} {
  func.func @train(%x: tensor<8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 64 : i64},
      %b: tensor<8xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<8x8xf32> {stow.name = "dw"}, tensor<8xf32> {stow.state = "b"}) attributes {stow.role = #stow.role<train>} {
    %dy = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 320>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %db = stow.reduce_sum %dy {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 832>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %b1 = stow.map %b, %db {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    %dw = stow.matmul %x, %dy {transpose_a = true, transpose_b = false, stow.offsets = array<i64: 576>, stow.workspace = 256 : i64, stow.workspace_offset = 832 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %dw, %b1 : tensor<8x8xf32>, tensor<8xf32>
  }
}

// -----

// Tests that it stays where it was in an arena without room for it.
// CHECK-LABEL: func.func @train
// CHECK: stow.reduce_sum %{{.*}} {{.*}}stow.offsets = array<i64: 832>}
// CHECK-NEXT: stow.map
// CHECK: stow.matmul
module attributes {stow.form = "placed", stow.arena_bytes = 1088 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 64 : i64, stow.lower_bound_bytes = 1088 : i64} {
  func.func @train(%x: tensor<8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 64 : i64},
      %b: tensor<8xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<8x8xf32> {stow.name = "dw"}, tensor<8xf32> {stow.state = "b"}) attributes {stow.role = #stow.role<train>} {
    %dy = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 320>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %db = stow.reduce_sum %dy {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 832>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %b1 = stow.map %b, %db {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    %dw = stow.matmul %x, %dy {transpose_a = true, transpose_b = false, stow.offsets = array<i64: 576>, stow.workspace = 256 : i64, stow.workspace_offset = 832 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %dw, %b1 : tensor<8x8xf32>, tensor<8xf32>
  }
}

// -----

// Tests what stays: a second sum for a product that makes one already, one over columns, one of a factor that is contracted over its
// columns, one that is wider than its product, and one of the factor of a product that goes through a function.
// CHECK-LABEL: func.func @train
// CHECK-COUNT-1: stow.together
// CHECK-NOT: stow.together
module attributes {stow.form = "placed", stow.arena_bytes = 4096 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 0 : i64, stow.lower_bound_bytes = 4096 : i64} {
  func.func @train(%x: tensor<8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 0 : i64},
      %h: tensor<8x8xbf16> {stow.name = "h", stow.kind = #stow.kind<input>, stow.offset = 256 : i64})
      -> (tensor<8x8xf32> {stow.name = "p"}, tensor<8x8xf32> {stow.name = "q"}, tensor<8x8xbf16> {stow.name = "r"}, tensor<8x8xf32> {stow.name = "t"},
          tensor<8xf32> {stow.name = "s0"}, tensor<8xf32> {stow.name = "s1"}, tensor<8xf32> {stow.name = "s2"}, tensor<8xf32> {stow.name = "s3"}, tensor<8xf32> {stow.name = "s4"}, tensor<8xf32> {stow.name = "s5"})
      attributes {stow.role = #stow.role<train>} {
    %dy = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 384>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %dz = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 640>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %p = stow.matmul %x, %dy {transpose_a = true, transpose_b = false, stow.offsets = array<i64: 896>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %s0 = stow.reduce_sum %dy {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 2048>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %s1 = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 2112>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %q = stow.matmul %x, %dz {transpose_a = false, transpose_b = true, stow.offsets = array<i64: 1152>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %s2 = stow.reduce_sum %dz {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 2176>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %s3 = stow.reduce_sum %dz {axes = array<i64: 1>, keepdims = false, stow.offsets = array<i64: 2240>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %r = stow.matmul %h, %h {transpose_a = true, transpose_b = false, stow.offsets = array<i64: 1408>} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %s4 = stow.reduce_sum %h {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 2304>} : (tensor<8x8xbf16>) -> tensor<8xf32>
    %t = stow.product_map %dz, %dz {stow.epilogue, transpose_a = true, transpose_b = false, stow.offsets = array<i64: 1664>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb0(%e: f32):
      %zero = arith.constant 0.0 : f32
      %0 = arith.maximumf %e, %zero : f32
      stow.yield %0 : f32
    }
    %s5 = stow.reduce_sum %dz {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 2368>} : (tensor<8x8xf32>) -> tensor<8xf32>
    return %p, %q, %r, %t, %s0, %s1, %s2, %s3, %s4, %s5 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// Tests a product that is added to a sum of several batches: the bias's gradient is no more than this batch's.
// CHECK-LABEL: func.func @train
// CHECK: stow.product_map
// CHECK: stow.reduce_sum {{.*}}stow.together
module attributes {stow.form = "placed", stow.arena_bytes = 832 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 256 : i64, stow.lower_bound_bytes = 832 : i64} {
  func.func @train(%x: tensor<8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 256 : i64},
      %sum: tensor<8x8xf32> {stow.name = "sum", stow.kind = #stow.kind<accumulator>, stow.offset = 0 : i64})
      -> (tensor<8x8xf32> {stow.state = "sum"}, tensor<8xf32> {stow.name = "db"}) attributes {stow.role = #stow.role<train>} {
    %dy = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 512>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %db = stow.reduce_sum %dy {axes = array<i64: 0>, keepdims = false, stow.offsets = array<i64: 768>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %dw = stow.product_map %x, %dy, %sum {transpose_a = true, transpose_b = false, updates = array<i64: 0, 2>, stow.offsets = array<i64: 0>} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb0(%e: f32, %s: f32):
      %0 = arith.addf %e, %s : f32
      stow.yield %0 : f32
    }
    return %dw, %db : tensor<8x8xf32>, tensor<8xf32>
  }
}
