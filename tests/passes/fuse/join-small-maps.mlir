// RUN: stowage-opt %s --target=cuda:h100 --stow-join-small-maps --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-join-small-maps --split-input-file | FileCheck %s --check-prefix=HOST

// Tests that the kernels of a cell between two products are one on a GPU, with a result for each value that others read, and that the
// host's stay.
// CHECK: module attributes {stow.small_launches = "joined"}
// CHECK-LABEL: @cell
// CHECK: %[[Y:.*]] = stow.matmul
// CHECK: %[[I:.*]] = stow.slice %[[Y]]
// CHECK: %[[G:.*]] = stow.slice %[[Y]]
// CHECK-NOT: stow.map
// CHECK: %[[M:.*]]:3 = stow.map %arg2, %[[G]], %[[I]] : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>)
// CHECK: math.tanh
// CHECK: math.exp
// CHECK: stow.yield
// CHECK-NOT: stow.map
// CHECK: stow.matmul %[[M]]#0
// HOST-LABEL: @cell
// HOST-COUNT-3: = stow.map
func.func @cell(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %c0: tensor<8x16xf32>) -> (tensor<8x32xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %a = stow.slice %y {starts = array<i64: 0, 0>, sizes = array<i64: 8, 16>} : (tensor<8x32xf32>) -> tensor<8x16xf32>
  %i = stow.map %a : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%p: f32):
    %0 = math.tanh %p : f32
    stow.yield %0 : f32
  }
  %b = stow.slice %y {starts = array<i64: 0, 16>, sizes = array<i64: 8, 16>} : (tensor<8x32xf32>) -> tensor<8x16xf32>
  %g = stow.map %b : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%p: f32):
    %0 = math.exp %p : f32
    stow.yield %0 : f32
  }
  %c = stow.map %i, %g, %c0 : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %0 = arith.mulf %p, %q : f32
    %1 = arith.addf %0, %r : f32
    stow.yield %1 : f32
  }
  %z = stow.matmul %c, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  return %z, %i, %g : tensor<8x32xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Tests what stays apart: maps that another launch stands between, of other phases, over other elements, and a map whose result something between the two reads.
// CHECK-LABEL: @apart
// CHECK-COUNT-5: = stow.map
func.func @apart(%x: tensor<8x8xf32>, %r: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<64xf32>, tensor<8x8xf32>) {
  %a = stow.map %x : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%p: f32):
    %0 = math.tanh %p : f32
    stow.yield %0 : f32
  }
  %y = stow.matmul %x, %x {transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = stow.map %x, %y : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.mulf %p, %q : f32
    stow.yield %0 : f32
  }
  %c = stow.map %r : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%p: f32):
    %0 = math.tanh %p : f32
    stow.yield %0 : f32
  }
  %flat = stow.reshape %b : (tensor<8x8xf32>) -> tensor<64xf32>
  %d = stow.map %flat : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%p: f32):
    %0 = math.exp %p : f32
    stow.yield %0 : f32
  }
  %e = stow.map %y, %b {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  return %a, %b, %c, %d, %e : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<64xf32>, tensor<8x8xf32>
}

// -----

// Tests that what is stored in 16 bits is read rounded.
// CHECK-LABEL: @rounded
// CHECK: %{{.*}}:2 = stow.map %arg0
// CHECK: %[[T:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK: %[[W:.*]] = arith.extf %[[T]] : bf16 to f32
// CHECK: arith.mulf %[[W]], %[[W]]
func.func @rounded(%x: tensor<8x8xbf16>) -> (tensor<8x8xbf16>, tensor<8x8xf32>) {
  %z = stow.matmul %x, %x {transpose_a = false, transpose_b = false} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
  %a = stow.map %x : (tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  ^bb0(%p: bf16):
    %0 = arith.extf %p : bf16 to f32
    %1 = math.tanh %0 : f32
    %2 = arith.truncf %1 : f32 to bf16
    stow.yield %2 : bf16
  }
  %b = stow.map %a : (tensor<8x8xbf16>) -> tensor<8x8xf32> {
  ^bb0(%p: bf16):
    %0 = arith.extf %p : bf16 to f32
    %1 = arith.mulf %0, %0 : f32
    stow.yield %1 : f32
  }
  return %a, %b : tensor<8x8xbf16>, tensor<8x8xf32>
}

// -----

// Tests that a step whose launches are to stay apart is left as it is.
// CHECK-LABEL: @as_the_budget_needs
// CHECK-COUNT-2: = stow.map
module attributes {stow.small_launches = "apart"} {
  func.func @as_the_budget_needs(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %a = stow.map %x : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb0(%p: f32):
      %0 = math.tanh %p : f32
      stow.yield %0 : f32
    }
    %b = stow.map %x : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb0(%p: f32):
      %0 = math.exp %p : f32
      stow.yield %0 : f32
    }
    return %a, %b : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
