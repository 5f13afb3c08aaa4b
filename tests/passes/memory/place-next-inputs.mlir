// RUN: stowage-opt %s --stow-place-next-inputs --stow-verify-placed --split-input-file | FileCheck %s

// Tests that the next batch comes as soon as there is room: the last command finds what b took free. The largest
// input takes the first gap, the labels the one behind them. In units of 64 KiB, 65,536 bytes:
//
//     0   1        5        9        13  13.06  13.13
//     | w | x      | a, c   | b      | l |      |       next x at 9, next l behind l
//
// CHECK-LABEL: func.func @train
// CHECK-SAME: stow.next_offset = 589824 : i64, stow.offset = 65536 : i64
// CHECK-SAME: stow.next_offset = 856064 : i64, stow.offset = 851968 : i64
// CHECK-NOT: stow.next_inputs
// CHECK: stow.map {{.*}}stow.next_inputs, stow.offsets = array<i64: 0>
module attributes {stow.form = "placed", stow.arena_bytes = 860160 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 65536 : i64, stow.lower_bound_bytes = 65536 : i64} {
  func.func @train(%x: tensor<512x128xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 65536 : i64},
      %l: tensor<512xi64> {stow.name = "l", stow.kind = #stow.kind<target>, stow.offset = 851968 : i64},
      %w: tensor<128x128xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<512x128xf32> {stow.name = "y"}, tensor<128x128xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 327680>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 589824>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 327680>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    %w1 = stow.map %w {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<128x128xf32>) -> tensor<128x128xf32> {
    ^bb0(%p: f32):
      %0 = arith.negf %p : f32
      stow.yield %0 : f32
    }
    return %c, %w1 : tensor<512x128xf32>, tensor<128x128xf32>
  }
}

// -----

// Tests that nothing is placed where the last command still needs all there is.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.next
// CHECK: return
module attributes {stow.form = "placed", stow.arena_bytes = 860160 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 65536 : i64, stow.lower_bound_bytes = 65536 : i64} {
  func.func @train(%x: tensor<512x128xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 65536 : i64},
      %l: tensor<512xi64> {stow.name = "l", stow.kind = #stow.kind<target>, stow.offset = 851968 : i64},
      %w: tensor<128x128xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<512x128xf32> {stow.name = "y"}, tensor<128x128xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 327680>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 589824>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 327680>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    return %c, %w : tensor<512x128xf32>, tensor<128x128xf32>
  }
}

// -----

// Tests that a batch of less than 256 KiB stays: it is not worth two copies.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.next
// CHECK: return
module attributes {stow.form = "placed", stow.arena_bytes = 860160 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 65536 : i64, stow.lower_bound_bytes = 65536 : i64} {
  func.func @train(%x: tensor<496x128xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 65536 : i64},
      %l: tensor<512xi64> {stow.name = "l", stow.kind = #stow.kind<target>, stow.offset = 851968 : i64},
      %w: tensor<128x128xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<496x128xf32> {stow.name = "y"}, tensor<128x128xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 319488>} : (tensor<496x128xf32>) -> tensor<496x128xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 573440>} : (tensor<496x128xf32>) -> tensor<496x128xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 319488>} : (tensor<496x128xf32>) -> tensor<496x128xf32>
    %w1 = stow.map %w {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<128x128xf32>) -> tensor<128x128xf32> {
    ^bb0(%p: f32):
      %0 = arith.negf %p : f32
      stow.yield %0 : f32
    }
    return %c, %w1 : tensor<496x128xf32>, tensor<128x128xf32>
  }
}

// -----

// Tests that room is searched for every graph of a step, and for no other: here evaluation alone would have some.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.next
// CHECK: return
module attributes {stow.form = "placed", stow.arena_bytes = 860160 : i64, stow.alignment = 64 : i64, stow.persistent_bytes = 65536 : i64, stow.lower_bound_bytes = 65536 : i64} {
  func.func @eval(%x: tensor<512x128xf32> {stow.name = "x", stow.kind = #stow.kind<input>, stow.offset = 65536 : i64},
      %l: tensor<512xi64> {stow.name = "l", stow.kind = #stow.kind<target>, stow.offset = 851968 : i64},
      %w: tensor<128x128xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.offset = 0 : i64})
      -> (tensor<512x128xf32> {stow.name = "y"}, tensor<128x128xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<eval>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.offsets = array<i64: 327680>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    %b = stow.softmax %a {axis = 1 : i64, stow.offsets = array<i64: 589824>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    %c = stow.softmax %b {axis = 1 : i64, stow.offsets = array<i64: 327680>} : (tensor<512x128xf32>) -> tensor<512x128xf32>
    %w1 = stow.map %w {updates = array<i64: 0, 0>, stow.offsets = array<i64: 0>} : (tensor<128x128xf32>) -> tensor<128x128xf32> {
    ^bb0(%p: f32):
      %0 = arith.negf %p : f32
      stow.yield %0 : f32
    }
    return %c, %w1 : tensor<512x128xf32>, tensor<128x128xf32>
  }
}
