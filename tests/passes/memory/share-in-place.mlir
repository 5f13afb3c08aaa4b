// RUN: stowage-opt %s --stow-share-in-place --split-input-file | FileCheck %s

// Tests that a result takes the storage of an operand that dies: the second map overwrites the
// first one's 16 bytes, but the first not x, which is read again.
// CHECK-LABEL: func.func @dying
// CHECK: %[[A:.*]] = stow.map %[[X:[a-z0-9]+]] : (tensor<4xf32>)
// CHECK: stow.map %[[A]], %[[X]] {stow.in_place = array<i64: 0, 0>}
func.func @dying(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4xf32> {stow.name = "y"}) {
  %a = stow.map %x : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32):
    %0 = arith.addf %p, %p : f32
    stow.yield %0 : f32
  }
  %b = stow.map %a, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  return %b : tensor<4xf32>
}

// -----

// Tests that an operand lives as long as a view of it is read, and dies with the view.
// CHECK-LABEL: func.func @views
// CHECK: %[[A:.*]] = stow.softmax %{{.*}} {axis = 1 : i64, stow.in_place = array<i64: 0, 0>}
// CHECK: %[[V:.*]] = stow.reshape %[[A]]
// CHECK: %[[B:.*]] = stow.softmax %[[A]] {axis = 1 : i64} :
// CHECK: stow.map %[[V]] {stow.in_place = array<i64: 0, 0>}
func.func @views(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}, tensor<16xf32> {stow.name = "z"}) {
  %a = stow.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = stow.reshape %a : (tensor<4x4xf32>) -> tensor<16xf32>
  %b = stow.softmax %a {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = stow.map %v : (tensor<16xf32>) -> tensor<16xf32> {
  ^bb0(%p: f32):
    stow.yield %p : f32
  }
  return %b, %c : tensor<4x4xf32>, tensor<16xf32>
}

// -----

// Tests that two results take two operands, that the third finds none left, and that an operand of
// another size (i8: 4 bytes, not 16) is no place.
// CHECK-LABEL: func.func @results
// CHECK: stow.map %{{.*}}, %{{.*}}, %{{.*}} {stow.in_place = array<i64: 0, 0, 1, 2>}
func.func @results(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %i: tensor<4xi8> {stow.name = "i", stow.kind = #stow.kind<input>},
    %z: tensor<4xf32> {stow.name = "z", stow.kind = #stow.kind<input>}) -> (tensor<4xf32> {stow.name = "a"}, tensor<4xf32> {stow.name = "b"}, tensor<4xf32> {stow.name = "c"}) {
  %a, %b, %c = stow.map %x, %i, %z : (tensor<4xf32>, tensor<4xi8>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%p: f32, %q: i8, %r: f32):
    stow.yield %p, %r, %p : f32, f32, f32
  }
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Tests that an operand read twice by the op is overwritten all the same: each element is read
// before its own place is written. Not so when the op reads it through a view of another type.
// CHECK-LABEL: func.func @twice
// CHECK: %[[A:.*]] = stow.map %[[X:[a-z0-9]+]], %[[X]] {stow.in_place = array<i64: 0, 0>}
// CHECK: %[[V:.*]] = stow.reshape %[[A]]
// CHECK: %[[B:.*]] = stow.map %[[V]], %[[A]] : (tensor<1x4xf32>, tensor<4xf32>)
func.func @twice(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<1x4xf32> {stow.name = "y"}) {
  %a = stow.map %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.mulf %p, %q : f32
    stow.yield %0 : f32
  }
  %v = stow.reshape %a : (tensor<4xf32>) -> tensor<1x4xf32>
  %b = stow.map %v, %a : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.mulf %p, %q : f32
    stow.yield %0 : f32
  }
  return %b : tensor<1x4xf32>
}

// -----

// Tests that state is never overwritten by anything but its new value, dead or not, and outputs not
// before the end.
// CHECK-LABEL: func.func @state
// CHECK-NOT: stow.in_place
// CHECK: return
func.func @state(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %m: tensor<4x4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>},
    %o: tensor<4x4xf32> {stow.name = "o", stow.kind = #stow.kind<optimizer>})
    -> (tensor<4x4xf32> {stow.name = "a"}, tensor<4x4xf32> {stow.name = "b"}, tensor<4x4xf32> {stow.name = "c"}, tensor<4x4xf32> {stow.name = "d"}) {
  %a = stow.softmax %w {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = stow.softmax %m {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = stow.softmax %o {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = stow.softmax %c {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a, %b, %c, %d : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Tests which operand each op offers: batch_norm_grad's dy (operand 4) and x (operand 0), whichever
// dies; cross_entropy_rows_grad's logits; nothing of a matmul. Stale marks are dropped.
// CHECK-LABEL: func.func @ops
// CHECK: stow.batch_norm_grad %{{.*}} {epsilon = 1.000000e-05 : f64, stow.in_place = array<i64: 0, 4>}
// CHECK: stow.batch_norm_grad %{{.*}} {epsilon = 1.000000e-05 : f64, stow.in_place = array<i64: 0, 0>}
// CHECK: stow.cross_entropy_rows_grad %{{.*}} {ignore_index = -100 : i64, stow.in_place = array<i64: 0, 0>}
// CHECK: stow.matmul %{{.*}} {transpose_a = false, transpose_b = false} :
func.func @ops(%x: tensor<4x4xf32>, %v: tensor<4xf32>, %dy: tensor<4x4xf32>, %t: tensor<4xi64>) -> tensor<4x4xf32> {
  %dx, %ds, %db = stow.batch_norm_grad %x, %v, %v, %v, %dy {epsilon = 1.0e-5 : f64}
      : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %c = stow.matmul %dx, %x {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %ex, %es, %eb = stow.batch_norm_grad %c, %v, %v, %v, %dx {epsilon = 1.0e-5 : f64}
      : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %e = stow.matmul %ex, %dx {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = stow.cross_entropy_rows_grad %e, %t, %ds, %db {ignore_index = -100 : i64} : (tensor<4x4xf32>, tensor<4xi64>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %m = stow.matmul %d, %x {transpose_a = false, transpose_b = false, stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %m : tensor<4x4xf32>
}

// -----

// Tests that layouts count: the same logical tensor in another order is another place.
// CHECK-LABEL: func.func @layouts
// CHECK-NOT: stow.in_place
// CHECK: return
func.func @layouts(%x: tensor<1x2x2x2xf32, #stow.layout<"0,2,3,1">>) -> tensor<1x2x2x2xf32> {
  %y = stow.map %x : (tensor<1x2x2x2xf32, #stow.layout<"0,2,3,1">>) -> tensor<1x2x2x2xf32> {
  ^bb0(%p: f32):
    stow.yield %p : f32
  }
  return %y : tensor<1x2x2x2xf32>
}

// -----

// Tests that a result which lies inside a concat keeps its place there, under whatever shape it is
// joined: it takes over no operand's.
// CHECK-LABEL: func.func @part_under_another_shape
// CHECK-NOT: stow.in_place
// CHECK: return
func.func @part_under_another_shape(%x: tensor<4x8xf32>) -> tensor<48xf32> {
  %a = stow.matmul %x, %x {transpose_a = true, transpose_b = false} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %r = stow.reduce_sum %a {axes = array<i64: 1>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  %s = stow.slice %a {starts = array<i64: 0, 0>, sizes = array<i64: 4, 8>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = stow.map %s : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32):
    stow.yield %p : f32
  }
  %v = stow.reshape %b : (tensor<4x8xf32>) -> tensor<32xf32>
  %y = stow.concat %r, %v, %r {axis = 0 : i64, stow.inside = array<i64: 1>} : (tensor<8xf32>, tensor<32xf32>, tensor<8xf32>) -> tensor<48xf32>
  return %y : tensor<48xf32>
}
