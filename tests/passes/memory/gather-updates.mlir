// RUN: stowage-opt %s --stow-gather-updates --stow-verify-placed --split-input-file | FileCheck %s

// Tests that three updates of one body run in one launch, where the last of them stood, each gradient waiting
// at its place. Bytes of the arena of 640:
//
//     0    64   128  192  256   320   384   448  512   576
//     | a  | b  | c  | d  | x   | da  | db  | dc |     |       nothing touches da behind its update
//
// The update of d has another body and stays alone. While da and db wait for dc, 4 * 64 transient bytes are live
// instead of 2: so much is the lower bound now, with the state's 256.
// CHECK: stow.lower_bound_bytes = 512 : i64
// CHECK-LABEL: func.func @train
// CHECK: stow.softmax
// CHECK-NEXT: stow.map {{.*}}stow.offsets = array<i64: 192>
// CHECK: stow.softmax
// CHECK-NEXT: stow.softmax
// CHECK-NEXT: stow.map {{.*}}{stow.offsets = array<i64: 0>, updates
// CHECK: stow.map {{.*}}{stow.offsets = array<i64: 64>, stow.together, updates
// CHECK: stow.map {{.*}}{stow.offsets = array<i64: 128>, stow.together, updates
module attributes {stow.form = "placed", stow.arena_bytes = 640 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 256 : i64, stow.lower_bound_bytes = 384 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 256 : i64},
      %a: tensor<4x4xf32> {stow.name = "a", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64},
      %b: tensor<4x4xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.offset = 64 : i64},
      %c: tensor<4x4xf32> {stow.name = "c", stow.kind = #stow.kind<parameter>, stow.offset = 128 : i64},
      %d: tensor<4x4xf32> {stow.name = "d", stow.kind = #stow.kind<parameter>, stow.offset = 192 : i64})
      -> (tensor<4x4xf32> {stow.state = "a"}, tensor<4x4xf32> {stow.state = "b"}, tensor<4x4xf32> {stow.state = "c"}, tensor<4x4xf32> {stow.state = "d"})
      attributes {stow.role = #stow.role<train>} {
    %da = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 320>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %a1 = stow.map %a, %da {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    %d1 = stow.map %d, %da {updates = array<i64: 0, 0>, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.addf %p, %q : f32
      stow.yield %0 : f32
    }
    %db = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 384>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b1 = stow.map %b, %db {updates = array<i64: 0, 0>, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    %dc = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 448>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c1 = stow.map %c, %dc {updates = array<i64: 0, 0>, stow.offsets = array<i64: 128>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    return %a1, %b1, %c1, %d1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// Tests that an update waits no longer than its gradient's bytes are its own: db takes those of da.
// CHECK-LABEL: func.func @train
// CHECK: stow.map
// CHECK-NOT: stow.together
// CHECK: return
module attributes {stow.form = "placed", stow.arena_bytes = 256 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 128 : i64, stow.lower_bound_bytes = 256 : i64} {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 128 : i64},
      %a: tensor<4x4xf32> {stow.name = "a", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64},
      %b: tensor<4x4xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.offset = 64 : i64})
      -> (tensor<4x4xf32> {stow.state = "a"}, tensor<4x4xf32> {stow.state = "b"}) attributes {stow.role = #stow.role<train>} {
    %da = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %a1 = stow.map %a, %da {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    %db = stow.softmax %x {axis = 0 : i64, stow.offsets = array<i64: 192>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b1 = stow.map %b, %db {updates = array<i64: 0, 0>, stow.offsets = array<i64: 64>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    return %a1, %b1 : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// Tests that updates of tensors that are not small stay where they are: 65,540 elements each.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.together
// CHECK: return
module attributes {stow.form = "placed", stow.arena_bytes = 1049024 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 524480 : i64, stow.lower_bound_bytes = 1049024 : i64} {
  func.func @train(%g: tensor<65540xf32> {stow.name = "g", stow.kind = #stow.kind<input>, stow.offset = 524544 : i64},
      %a: tensor<65540xf32> {stow.name = "a", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64},
      %b: tensor<65540xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.offset = 262208 : i64})
      -> (tensor<65540xf32> {stow.state = "a"}, tensor<65540xf32> {stow.state = "b"}) attributes {stow.role = #stow.role<train>} {
    %a1 = stow.map %a, %g {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<65540xf32>, tensor<65540xf32>) -> tensor<65540xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    %b1 = stow.map %b, %g {updates = array<i64: 0, 0>, stow.offsets = array<i64: 262208>} : (tensor<65540xf32>, tensor<65540xf32>) -> tensor<65540xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    return %a1, %b1 : tensor<65540xf32>, tensor<65540xf32>
  }
}
