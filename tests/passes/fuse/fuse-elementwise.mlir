// RUN: stowage-opt %s --stow-fuse-elementwise --split-input-file | FileCheck %s

// Tests that a chain becomes one kernel: the 32 bytes between add and relu never exist.
// CHECK-LABEL: func.func @chain
// CHECK: %[[Y:.*]] = stow.map %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK: arith.maximumf %[[S]]
// CHECK: stow.yield
// CHECK: return %[[Y]]
func.func @chain(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %s = stow.add %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %y = stow.relu %s : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Tests that a value with two readers stays: merging it into both would compute it twice. A value
// read twice by one op has one reader.
// CHECK-LABEL: func.func @readers
// CHECK: %[[E:.*]] = stow.map %{{.*}} : (tensor<8xf32>)
// CHECK: %[[N:.*]] = stow.map %[[E]] :
// CHECK: arith.negf
// CHECK: %[[Q:.*]] = stow.map %[[E]] :
// CHECK: %[[T:.*]] = math.tanh
// CHECK-NEXT: arith.mulf %[[T]], %[[T]]
// CHECK: return %[[N]], %[[Q]]
func.func @readers(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = stow.sigmoid %a : (tensor<8xf32>) -> tensor<8xf32>
  %n = stow.neg %e : (tensor<8xf32>) -> tensor<8xf32>
  %t = stow.tanh %e : (tensor<8xf32>) -> tensor<8xf32>
  %q = stow.mul %t, %t : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %n, %q : tensor<8xf32>, tensor<8xf32>
}

// -----

// Tests that the forward and the backward stay apart: the relu's output, which only the backward
// reads, is computed where the forward is. The backward's own chain is one kernel.
// CHECK-LABEL: func.func @phases
// CHECK: %[[R:.*]] = stow.map %{{.*}} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[D:.*]] = stow.map %{{.*}}, %[[R]] {stow.phase = #stow.phase<backward>}
// CHECK-NOT: stow.map
// CHECK: return %[[D]]
func.func @phases(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> tensor<8xf32> {
  %r = stow.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  %m = stow.mul %dy, %r {stow.phase = #stow.phase<backward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %d = stow.neg %m {stow.phase = #stow.phase<backward>} : (tensor<8xf32>) -> tensor<8xf32>
  return %d : tensor<8xf32>
}

// -----

// Tests that the gradient's last step merges into the update, which keeps its pairs: parameter and
// momentum are overwritten, and the gradient never exists.
// CHECK-LABEL: func.func @update
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8xf32>, %[[M:[a-z0-9]+]]: tensor<8xf32>, %[[DY:[a-z0-9]+]]: tensor<8xf32>, %[[LR:[a-z0-9]+]]: tensor<f32>
// CHECK: %[[U:.*]]:2 = stow.map %[[W]], %[[LR]], %[[M]], %[[DY]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 2>}
// CHECK-NOT: stow.map
// CHECK: return %[[U]]#0, %[[U]]#1
func.func @update(%w: tensor<8xf32>, %m: tensor<8xf32>, %dy: tensor<8xf32>, %lr: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %g = stow.neg %dy {stow.phase = #stow.phase<backward>} : (tensor<8xf32>) -> tensor<8xf32>
  %w1, %m1 = stow.sgd %w, %g, %lr, %m {momentum = 0.9 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %w1, %m1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Tests that the read of a parameter does not move behind its update: dx reads w, w is updated, and
// only then comes the only reader of dx. Merged there, dx would see the new w.
// CHECK-LABEL: func.func @stale
// CHECK: %[[DX:.*]] = stow.map %{{.*}}, %[[W:arg[0-9]]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.map %[[W]], {{.*}} {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0>}
// CHECK: stow.map %[[DX]]{{.*}} {stow.phase = #stow.phase<backward>}
func.func @stale(%w: tensor<8xf32>, %dy: tensor<8xf32>, %x: tensor<8xf32>, %lr: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %dx = stow.mul %dy, %w {stow.phase = #stow.phase<backward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %dw = stow.mul %dy, %x {stow.phase = #stow.phase<backward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %w1 = stow.sgd %w, %dw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %dz = stow.relu_grad %dx, %x {stow.phase = #stow.phase<backward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %w1, %dz : tensor<8xf32>, tensor<8xf32>
}

// -----

// Tests the same with the parameter read through a view.
// CHECK-LABEL: func.func @stale_view
// CHECK: %[[V:.*]] = stow.reshape
// CHECK: %[[DX:.*]] = stow.map %{{.*}}, %[[V]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.map {{.*}} {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0>}
// CHECK: stow.map %[[DX]]{{.*}} {stow.phase = #stow.phase<backward>}
func.func @stale_view(%w: tensor<8xf32>, %dy: tensor<2x4xf32>, %x: tensor<2x4xf32>, %dw: tensor<8xf32>, %lr: tensor<f32>) -> (tensor<8xf32>, tensor<2x4xf32>) {
  %v = stow.reshape %w : (tensor<8xf32>) -> tensor<2x4xf32>
  %dx = stow.mul %dy, %v {stow.phase = #stow.phase<backward>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %w1 = stow.sgd %w, %dw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %dz = stow.relu_grad %dx, %x {stow.phase = #stow.phase<backward>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %w1, %dz : tensor<8xf32>, tensor<2x4xf32>
}

// -----

// Tests that scalars computed for a kernel merge into it, whatever its shape, but that a row, which
// the kernel would compute again for every one of its rows, does not.
// CHECK-LABEL: func.func @scalars
// CHECK: %[[ROW:.*]] = stow.map %{{.*}} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[Y:.*]] = stow.map %{{.*}} : ({{.*}}) -> tensor<4x8xf32>
// CHECK-NOT: stow.map
// CHECK: return %[[Y]]
func.func @scalars(%x: tensor<4x8xf32>, %s: tensor<f32>, %row: tensor<8xf32>) -> tensor<4x8xf32> {
  %r = stow.sqrt %s : (tensor<f32>) -> tensor<f32>
  %e = stow.exp %row : (tensor<8xf32>) -> tensor<8xf32>
  %y = stow.mul %x, %r : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %z = stow.add %y, %e : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----

// Tests that a kernel that counts its elements keeps its own shape: as a scalar it would draw
// element 0 for all, inside the larger kernel another number for each.
// CHECK-LABEL: func.func @counter
// CHECK: %[[D:.*]] = stow.map %{{.*}} : (tensor<1xf32>, tensor<i64>) -> tensor<1xf32>
// CHECK: stow.element_index
// CHECK: stow.map %[[X:.*]], %[[D]] : (tensor<8xf32>, tensor<1xf32>)
func.func @counter(%x: tensor<8xf32>, %s: tensor<1xf32>, %seed: tensor<i64>) -> tensor<8xf32> {
  %d = stow.dropout_training %s, %seed {ratio = 0.5 : f64, stream = 0 : i64} : (tensor<1xf32>, tensor<i64>) -> tensor<1xf32>
  %y = stow.mul %x, %d : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Tests that over the same elements it merges: the numbers are the same.
// CHECK-LABEL: func.func @dropout
// CHECK-COUNT-1: stow.map
// CHECK: stow.element_index
// CHECK-NOT: stow.map
// CHECK: return
func.func @dropout(%x: tensor<8xf32>, %seed: tensor<i64>) -> tensor<8xf32> {
  %r = stow.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  %d = stow.dropout_training %r, %seed {ratio = 0.5 : f64, stream = 0 : i64} : (tensor<8xf32>, tensor<i64>) -> tensor<8xf32>
  return %d : tensor<8xf32>
}

// -----

// Tests that splat constants are immediates, and that a broadcast of one has no operand left.
// CHECK-LABEL: func.func @constants
// CHECK: %[[A:.*]] = stow.map %{{.*}} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: arith.constant 5.000000e-01 : f32
// CHECK: %[[B:.*]] = stow.map : () -> tensor<4x8xf32>
// CHECK: arith.constant 2.000000e+00 : f32
// CHECK-NOT: stow.constant
// CHECK: return %[[A]], %[[B]]
func.func @constants(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>) {
  %c = stow.constant dense<0.5> : tensor<f32>
  %a = stow.mul %x, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %d = stow.constant dense<2.0> : tensor<1xf32>
  %b = stow.broadcast_to %d : (tensor<1xf32>) -> tensor<4x8xf32>
  return %a, %b : tensor<8xf32>, tensor<4x8xf32>
}

// -----

// Tests that a reshaped constant is a constant: the gradient of a sum broadcasts the seed 1 and
// merges into its reader.
// CHECK-LABEL: func.func @seed
// CHECK-NOT: stow.reshape
// CHECK: stow.map %{{.*}} {stow.phase = #stow.phase<backward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: arith.constant 1.000000e+00 : f32
// CHECK-NOT: stow.map
// CHECK: return
func.func @seed(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = stow.constant {stow.phase = #stow.phase<backward>} dense<1.0> : tensor<f32>
  %r = stow.reshape %c {stow.phase = #stow.phase<backward>} : (tensor<f32>) -> tensor<1x1xf32>
  %b = stow.broadcast_to %r {stow.phase = #stow.phase<backward>} : (tensor<1x1xf32>) -> tensor<4x8xf32>
  %y = stow.mul %b, %x {stow.phase = #stow.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Tests that a constant which no kernel reads is filled by one: the loss's gradient for each row is a
// tensor of 4*4 bytes, and an output may be a constant.
// CHECK-LABEL: func.func @filled
// CHECK: %[[ONES:.*]] = stow.map {stow.phase = #stow.phase<backward>} : () -> tensor<4xf32>
// CHECK: stow.yield
// CHECK: %[[TWO:.*]] = stow.map : () -> tensor<f32>
// CHECK: stow.cross_entropy_rows_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[ONES]]
// CHECK: return %{{.*}}, %[[TWO]]
func.func @filled(%l: tensor<4x8xf32>, %t: tensor<4xi64>, %lse: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<f32>) {
  %c = stow.constant {stow.phase = #stow.phase<backward>} dense<1.0> : tensor<4xf32>
  %two = stow.constant dense<2.0> : tensor<f32>
  %d = stow.cross_entropy_rows_grad %l, %t, %lse, %c {ignore_index = -100 : i64, stow.phase = #stow.phase<backward>}
      : (tensor<4x8xf32>, tensor<4xi64>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return %d, %two : tensor<4x8xf32>, tensor<f32>
}

// -----

// Tests that an operand read by both kernels is read once by the merged one, and that locations of
// both stay, the reader's first.
// CHECK-LABEL: func.func @shared
// CHECK: stow.map %{{[a-z0-9]+}} : (tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32):
// CHECK: arith.mulf %{{.*}}, %[[X]]
func.func @shared(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = stow.sigmoid %x : (tensor<8xf32>) -> tensor<8xf32>
  %y = stow.mul %s, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Tests that the gradients of a weight read twice are added as they come: merged into one kernel at
// the end all three products (1024 bytes each) would be alive, one by one only two are. Between
// elementwise ops alone the sums merge.
// CHECK-LABEL: func.func @accumulate
// CHECK: stow.matmul
// CHECK: stow.matmul
// CHECK: stow.map %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
// CHECK: stow.matmul
// CHECK: stow.map %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
// CHECK-NOT: stow.map
// CHECK: return
func.func @accumulate(%a: tensor<16x4xf32>, %b: tensor<4x16xf32>) -> tensor<16x16xf32> {
  %0 = stow.matmul %a, %b {transpose_a = false, transpose_b = false} : (tensor<16x4xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
  %1 = stow.matmul %a, %b {transpose_a = false, transpose_b = false} : (tensor<16x4xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
  %2 = stow.add %0, %1 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = stow.matmul %a, %b {transpose_a = false, transpose_b = false} : (tensor<16x4xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
  %4 = stow.add %2, %3 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %5 = stow.neg %4 : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %5 : tensor<16x16xf32>
}

// -----

// Tests that doubles become 16 bits by way of f32, as in PyTorch; runtimes of compilers have no other.
// CHECK-LABEL: func.func @from_doubles
// CHECK: %[[F:.*]] = arith.truncf %{{.*}} : f64 to f32
// CHECK-NEXT: arith.truncf %[[F]] : f32 to bf16
func.func @from_doubles(%a: tensor<8xf64>) -> tensor<8xbf16> {
  %y = stow.cast %a : (tensor<8xf64>) -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}
