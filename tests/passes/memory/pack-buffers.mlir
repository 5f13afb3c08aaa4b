// RUN: stowage-opt %s --stow-pack-buffers --stow-verify-placed --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-pack-buffers=alignment=4 --stow-verify-placed --split-input-file | FileCheck %s --check-prefix=DENSE
// Tests that packing ends within what is said to be enough, and that what nothing fits is passed over.
// RUN: stowage-opt %s --stow-pack-buffers=enough=1000000 --stow-verify-placed --split-input-file -o /dev/null
// RUN: stowage-opt %s --stow-pack-buffers=enough=1 --stow-verify-placed --split-input-file | FileCheck %s

// Tests a chain of three softmaxes over 64 bytes, none in place. x and the first result are live
// together, then the first and the second, so that 2 * 64 bytes do; the output is the third and may
// take the first one's place. The bound is the two that overlap.
// CHECK: module attributes {stow.alignment = 64 : i64, stow.arena_bytes = 128 : i64, stow.form = "placed", stow.logical_bound_bytes = 128 : i64, stow.lower_bound_bytes = 128 : i64, stow.persistent_bytes = 0 : i64}
// CHECK: func.func @eval(%{{.*}} {stow.kind = #stow.kind<input>, stow.name = "x", stow.offset = [[X:0|64]] : i64}
// CHECK-SAME: attributes {stow.lower_bound_bytes = 128 : i64, stow.role
// CHECK: stow.softmax {{.*}}stow.offsets = array<i64: [[A:0|64]]>
// CHECK: stow.softmax {{.*}}stow.offsets = array<i64: [[X]]>
// CHECK: stow.softmax {{.*}}stow.offsets = array<i64: [[A]]>
// DENSE: stow.alignment = 4 : i64, stow.arena_bytes = 128 : i64
module {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %a = stow.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax %b {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %c : tensor<4x4xf32>
  }
}

// -----

// Tests that in-place marks and views make one storage: the whole chain takes the input's 64 bytes.
// CHECK: stow.arena_bytes = 64 : i64
// CHECK: stow.softmax {{.*}}stow.offsets = array<i64: 0>
// CHECK-NEXT: stow.reshape %{{[0-9]+}} : (tensor<4x4xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: stow.softmax {{.*}}stow.offsets = array<i64: 0>
module {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<2x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %a = stow.softmax %x {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %v = stow.reshape %a : (tensor<4x4xf32>) -> tensor<2x8xf32>
    %c = stow.softmax %v {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    return %c : tensor<2x8xf32>
  }
}

// -----

// Tests that state lies at the bottom, at the same offsets in all graphs, whatever their order of
// arguments: w (12 bytes) at 0 and m (12 bytes) at 64, each padded to 64; n, which only @eval has,
// at 128. The arena is the state's 192 bytes and the higher graph's, x and y: 64 + 16 = 80; packed to
// 4 bytes it is 36 and 2 * 16.
// CHECK: stow.arena_bytes = 272 : i64, stow.form = "placed", stow.logical_bound_bytes = 272 : i64, stow.lower_bound_bytes = 272 : i64, stow.persistent_bytes = 192 : i64
// CHECK: func.func @train(%{{.*}} {stow.kind = #stow.kind<input>, stow.name = "x", stow.offset = {{192|256}} : i64}
// CHECK-SAME: stow.name = "w", stow.offset = 0 : i64
// CHECK-SAME: stow.name = "m", stow.offset = 64 : i64
// CHECK: stow.map {{.*}}stow.offsets = array<i64: 0>
// CHECK: func.func @eval
// CHECK-SAME: stow.name = "n", stow.offset = 128 : i64
// CHECK-SAME: stow.name = "m", stow.offset = 64 : i64
// CHECK-SAME: stow.name = "w", stow.offset = 0 : i64
// DENSE: stow.arena_bytes = 68 : i64, stow.form = "placed", stow.logical_bound_bytes = 68 : i64, stow.lower_bound_bytes = 68 : i64, stow.persistent_bytes = 36 : i64
// DENSE: func.func @train
// DENSE-SAME: stow.name = "m", stow.offset = 12 : i64
// DENSE: func.func @eval
// DENSE-SAME: stow.name = "n", stow.offset = 24 : i64
module {
  func.func @train(%x: tensor<1x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %m: tensor<3xf32> {stow.name = "m", stow.kind = #stow.kind<optimizer>}) -> (tensor<1x4xf32> {stow.name = "y"}, tensor<3xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.softmax %x {axis = 1 : i64} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %w1 = stow.map %w, %m {updates = array<i64: 0, 0>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.addf %a, %b : f32
      stow.yield %0 : f32
    }
    return %y, %w1 : tensor<1x4xf32>, tensor<3xf32>
  }
  func.func @eval(%n: tensor<3xf32> {stow.name = "n", stow.kind = #stow.kind<statistic>}, %m: tensor<3xf32> {stow.name = "m", stow.kind = #stow.kind<optimizer>},
      %w: tensor<3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) attributes {stow.role = #stow.role<eval>} {
    return
  }
}

// -----

// Tests that an output keeps its place to the end: y is returned, so that what is made later cannot
// take its bytes though no command reads it again. x and what overwrites it 64, y 64, the slice 16.
// CHECK: stow.arena_bytes = 144 : i64
// CHECK: func.func @train
// CHECK: stow.softmax {{.*}}stow.offsets = array<i64: [[Y:[0-9]+]]>
// CHECK-NOT: array<i64: [[Y]]>
// CHECK: return
module {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4xf32> {stow.name = "s"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %z = stow.softmax %x {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = stow.map %z {stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%a: f32):
      stow.yield %a : f32
    }
    %u = stow.slice %s {starts = array<i64: 0, 0>, sizes = array<i64: 1, 4>} : (tensor<4x4xf32>) -> tensor<1x4xf32>
    %v = stow.reshape %u : (tensor<1x4xf32>) -> tensor<4xf32>
    return %y, %v : tensor<4x4xf32>, tensor<4xf32>
  }
}

// -----

// Tests that scratch is live during its op only and apart from what the op reads and writes: the
// matmuls need 64 + 64 + 1000 bytes each, and nothing outlives them but x or y: 1128 in all.
// CHECK: stow.arena_bytes = 1128 : i64
// CHECK: stow.matmul {{.*}}stow.workspace = 1000 : i64, stow.workspace_offset = [[S:[0-9]+]] : i64
// CHECK: stow.matmul {{.*}}stow.workspace = 1000 : i64, stow.workspace_offset = {{[0-9]+}} : i64
module {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %a = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.workspace = 1000 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.matmul %a, %a {transpose_a = false, transpose_b = false, stow.workspace = 1000 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %b : tensor<4x4xf32>
  }
}

// -----

// Tests that an unused input and an unused result have a place for one command.
// CHECK: func.func @eval
// CHECK-SAME: stow.name = "x", stow.offset = [[X:[0-9]+]] : i64
// CHECK-SAME: stow.name = "z", stow.offset = {{[0-9]+}} : i64
// CHECK: stow.map {{.*}}stow.offsets = array<i64: {{[0-9]+}}, {{[0-9]+}}>
module {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %z: tensor<4x4xf32> {stow.name = "z", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %a, %b = stow.map %x : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    ^bb0(%p: f32):
      stow.yield %p, %p : f32, f32
    }
    return %a : tensor<4x4xf32>
  }
}

// -----

// Tests a graph without commands: its output is its input.
// CHECK: stow.arena_bytes = 64 : i64
// CHECK: stow.name = "x", stow.offset = 0 : i64
module {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    return %x : tensor<4x4xf32>
  }
}

// -----

// Tests that a blocked layout counts with its padding: 1 channel stored as 16 takes 1*16*2*2*4 = 256.
// CHECK: stow.arena_bytes = 256 : i64
module {
  func.func @eval(%x: tensor<1x1x2x2xf32, #stow.layout<"0,1,2,3;1:16">> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<1x1x2x2xf32, #stow.layout<"0,1,2,3;1:16">> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %a = stow.map %x {stow.in_place = array<i64: 0, 0>} : (tensor<1x1x2x2xf32, #stow.layout<"0,1,2,3;1:16">>) -> tensor<1x1x2x2xf32, #stow.layout<"0,1,2,3;1:16">> {
    ^bb0(%p: f32):
      stow.yield %p : f32
    }
    return %a : tensor<1x1x2x2xf32, #stow.layout<"0,1,2,3;1:16">>
  }
}

// -----

// Tests the bound without the padding of layouts: 3 channels in blocks of 8 take 8 * 4 * 4 = 128 bytes
// and are 48; their copy takes 48 and lives beside them: 128 + 48 against 64 + 48 with the lower one
// rounded up to 64.
// CHECK: stow.form = "placed", stow.logical_bound_bytes = 112 : i64, stow.lower_bound_bytes = 176 : i64
module {
  func.func @eval(%x: tensor<1x3x2x2xf32, #stow.layout<"0,1,2,3;1:8">> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<1x3x2x2xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.reorder %x : (tensor<1x3x2x2xf32, #stow.layout<"0,1,2,3;1:8">>) -> tensor<1x3x2x2xf32>
    return %y : tensor<1x3x2x2xf32>
  }
}

// -----

// Tests that a module may hold more graphs than two: state has one place in all, and each graph packs
// what else it needs into the same bytes above it. Names say nothing.
// CHECK: stow.arena_bytes = 192 : i64
// CHECK-SAME: stow.persistent_bytes = 64 : i64
// CHECK: func.func @one({{.*}}stow.name = "x", stow.offset = [[X:64|128]] : i64}) {{.*}}stow.role = #stow.role<train>
// CHECK: func.func @two({{.*}}stow.name = "x", stow.offset = 64 : i64}) {{.*}}stow.role = #stow.role<eval>
// CHECK: func.func @three({{.*}}stow.name = "w", stow.offset = 0 : i64}{{.*}}stow.role = #stow.role<accumulate>
// CHECK: func.func @four({{.*}}stow.name = "w", stow.offset = 0 : i64}{{.*}}stow.role = #stow.role<commit>
module {
  func.func @one(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %x {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
  func.func @two(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    return %x : tensor<4x4xf32>
  }
  func.func @three(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<optimizer>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<accumulate>} {
    %y = stow.matmul %w, %w {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
  func.func @four(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<optimizer>}) attributes {stow.role = #stow.role<commit>} {
    return
  }
}
