// RUN: stowage-opt %s --stow-fuse-elementwise --stow-rederive-saved --split-input-file | FileCheck %s

// Tests SiLU: the backward computes the sigmoid again from x, which it reads anyway. A kernel in
// between reads neither, and two kernels get a clone each.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>, %[[DY:[a-z0-9]+]]: tensor<4xf32>
// CHECK: %[[S:.*]] = stow.map %[[X]] : (tensor<4xf32>)
// CHECK: %[[Y:.*]] = stow.map %[[X]], %[[S]] :
// CHECK: %[[S2:.*]] = stow.map %[[X]] {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: math.exp
// CHECK: %[[D:.*]] = stow.map %[[X]], %[[DY]], %[[S2]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.reduce_sum
// CHECK: %[[S3:.*]] = stow.map %[[X]] {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: math.exp
// CHECK: %[[E:.*]] = stow.map %[[X]], %{{.*}}, %[[S3]] {stow.phase = #stow.phase<backward>}
// CHECK: return %[[Y]], %[[D]], %[[E]]
func.func @train(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {stow.role = #stow.role<train>} {
  %s = stow.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %y = stow.mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d0 = stow.mul %dy, %s {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d1 = stow.mul %d0, %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = stow.reduce_sum %d1 {axes = array<i64: 0>, keepdims = true, stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<1xf32>
  %d2 = stow.mul %r, %s {stow.phase = #stow.phase<backward>} : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d3 = stow.mul %d2, %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y, %d1, %d3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Tests the minimum cut: 4 elements of %a instead of its sigmoid and its tanh, 8, although no
// kernel of the backward read %a; and nothing for a value made of a broadcast one of 1 element.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<4xf32>, %[[R:[a-z0-9]+]]: tensor<1xf32>
// CHECK: %[[S:.*]] = stow.map %[[A]] {stow.phase = #stow.phase<backward>}
// CHECK: %[[T:.*]] = stow.map %[[A]] {stow.phase = #stow.phase<backward>}
// CHECK: %[[B:.*]] = stow.map %[[R]] {stow.phase = #stow.phase<backward>} : (tensor<1xf32>) -> tensor<4xf32>
// CHECK: stow.map %[[B]], %[[S]], %[[T]] {stow.phase = #stow.phase<backward>}
func.func @train(%a: tensor<4xf32>, %r: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {stow.role = #stow.role<train>} {
  %one = stow.constant dense<1.0> : tensor<4xf32>
  %s = stow.sigmoid %a : (tensor<4xf32>) -> tensor<4xf32>
  %c = stow.tanh %a : (tensor<4xf32>) -> tensor<4xf32>
  %b = stow.add %r, %one : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = stow.add %s, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = stow.add %f, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d0 = stow.mul %s, %c {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d1 = stow.mul %d0, %b {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %g, %d1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Tests what stays saved: what another op of the backward reads as long (%p), what is no larger than
// its source (a mask of one byte; %t, made of one value), and what a kernel of another shape reads.
// CHECK-LABEL: func.func @train
// CHECK: %[[P:.*]] = stow.map %[[A:.*]] : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[M:.*]] = stow.map %[[A]] : (tensor<4x4xf32>) -> tensor<4x4xi1>
// CHECK: %[[T:.*]] = stow.map %{{.*}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[W:.*]] = stow.map %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: stow.matmul %[[P]],
// CHECK-NEXT: %[[D:.*]] = stow.map {{.*}} {stow.phase = #stow.phase<backward>} : ({{.*}}, {{.*}}, {{.*}}, {{.*}}, {{.*}}) ->
// CHECK-NOT: stow.map
// CHECK: stow.matmul %[[D]], %[[P]]
func.func @train(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %v: tensor<4xf32>, %dy: tensor<4x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {stow.role = #stow.role<train>} {
  %p = stow.tanh %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = stow.positive_mask %a : (tensor<4x4xf32>) -> tensor<4x4xi1>
  %t = stow.neg %b : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %w = stow.neg %v : (tensor<4xf32>) -> tensor<4xf32>
  %x = stow.mul %t, %w : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %y = stow.matmul %p, %x {transpose_a = false, transpose_b = false}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d0 = stow.mul %dy, %p {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d1 = stow.relu_grad %d0, %m {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xi1>) -> tensor<4x4xf32>
  %d2 = stow.mul %d1, %t {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d3 = stow.mul %d2, %w {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %d4 = stow.matmul %d3, %p {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y, %d4 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Tests the bound on work: of six exponentials of each other, all of which the backward reads, every
// fifth stays saved, since five take more than 64 operations.
// CHECK-LABEL: func.func @train
// CHECK: %[[E1:.*]] = stow.map %[[A:.*]] : (tensor<4xf32>)
// CHECK: %[[E2:.*]] = stow.map %[[E1]] :
// CHECK: %[[E3:.*]] = stow.map %[[E2]] :
// CHECK: %[[E4:.*]] = stow.map %[[E3]] :
// CHECK: %[[E5:.*]] = stow.map %[[E4]] :
// CHECK: %[[E6:.*]] = stow.map %[[E5]] :
// CHECK-DAG: %[[R1:.*]] = stow.map %[[A]] {stow.phase = #stow.phase<backward>}
// CHECK-DAG: %[[R2:.*]] = stow.map %[[R1]] {stow.phase = #stow.phase<backward>}
// CHECK-DAG: %[[R3:.*]] = stow.map %[[R2]] {stow.phase = #stow.phase<backward>}
// CHECK-DAG: %[[R4:.*]] = stow.map %[[R3]] {stow.phase = #stow.phase<backward>}
// CHECK-DAG: %[[R6:.*]] = stow.map %[[E5]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.map %[[A]], %[[R1]], %[[R2]], %[[R3]], %[[R4]], %[[E5]], %[[R6]] {stow.phase = #stow.phase<backward>}
func.func @train(%a: tensor<4xf32>) -> (tensor<1xf32>, tensor<4xf32>) attributes {stow.role = #stow.role<train>} {
  %e1 = stow.exp %a : (tensor<4xf32>) -> tensor<4xf32>
  %e2 = stow.exp %e1 : (tensor<4xf32>) -> tensor<4xf32>
  %e3 = stow.exp %e2 : (tensor<4xf32>) -> tensor<4xf32>
  %e4 = stow.exp %e3 : (tensor<4xf32>) -> tensor<4xf32>
  %e5 = stow.exp %e4 : (tensor<4xf32>) -> tensor<4xf32>
  %e6 = stow.exp %e5 : (tensor<4xf32>) -> tensor<4xf32>
  %d = stow.map %a, %e1, %e2, %e3, %e4, %e5, %e6 {stow.phase = #stow.phase<backward>}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%0: f32, %1: f32, %2: f32, %3: f32, %4: f32, %5: f32, %6: f32):
    stow.yield %6 : f32
  }
  %y = stow.reduce_sum %e6 {axes = array<i64: 0>, keepdims = true} : (tensor<4xf32>) -> tensor<1xf32>
  return %y, %d : tensor<1xf32>, tensor<4xf32>
}

// -----

// Tests that state which an update has overwritten is not read again: x * w stays saved for the kernel
// behind the update, and is computed again where the old w still stands.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>, %[[DY:[a-z0-9]+]]: tensor<4xf32>, %[[U:[a-z0-9]+]]: tensor<4xf32>
// CHECK: %[[XW:.*]] = stow.map %[[X]], %{{.*}} : (tensor<4xf32>, tensor<4xf32>)
// CHECK: %[[XU:.*]] = stow.map %[[X]], %[[U]] : (tensor<4xf32>, tensor<4xf32>)
// CHECK: stow.map {{.*}} {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0>}
// CHECK: %[[AGAIN:.*]] = stow.map %[[X]], %[[U]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.map %[[X]], %[[AGAIN]], %[[DY]], %[[XW]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.map {{.*}} {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0>}
func.func @train(%x: tensor<4xf32>, %dy: tensor<4xf32>,
                 %u: tensor<4xf32> {stow.name = "u", stow.kind = #stow.kind<parameter>},
                 %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %lr: tensor<f32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {stow.role = #stow.role<train>} {
  %xw = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %xu = stow.mul %x, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = stow.add %xw, %xu : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %w1 = stow.sgd %w, %dy, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %d0 = stow.mul %dy, %xw {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d1 = stow.mul %d0, %xu {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d2 = stow.mul %d1, %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u1 = stow.sgd %u, %d2, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %y, %d2, %u1, %w1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Tests a mask in place of the value: of the product the backward reads where it lies within clip's
// bounds, and nothing else.
// CHECK-LABEL: func.func @train
// CHECK: %[[X:.*]] = stow.matmul
// CHECK-NEXT: %[[M:.*]] = stow.map %[[X]] : (tensor<4x4xf32>) -> tensor<4x4xi1> {
// CHECK-NEXT: ^bb0(%[[E:.*]]: f32):
// CHECK-DAG: %[[LOW:.*]] = arith.cmpf oge, %[[E]],
// CHECK-DAG: %[[HIGH:.*]] = arith.cmpf oge, %{{.*}}, %[[E]]
// CHECK: %[[BIT:.*]] = arith.andi %[[LOW]], %[[HIGH]] : i1
// CHECK-NEXT: stow.yield %[[BIT]] : i1
// CHECK: %[[Y:.*]] = stow.map %[[X]] : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: stow.map %{{.*}}, %[[M]] {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xi1>) -> tensor<4x4xf32> {
// CHECK-NEXT: ^bb0(%[[DY:.*]]: f32, %[[READ:.*]]: i1):
// CHECK-NOT: arith.cmpf
// CHECK: arith.select %[[READ]], %{{.*}}
// CHECK: stow.matmul %{{.*}}, %[[Y]]
func.func @train(%a: tensor<4x4xf32>, %dy: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {stow.role = #stow.role<train>} {
  %x = stow.matmul %a, %a {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = stow.clip %x {low = 0.0 : f64, high = 6.0 : f64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = stow.matmul %y, %a {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = stow.range_grad %dy, %x {low = 0.0 : f64, high = 6.0 : f64, slope = 1.0 : f64, closed = true, stow.phase = #stow.phase<backward>}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w = stow.matmul %d, %y {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z, %w : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Tests what is read as it is: a value that the backward reads for something else as well (%x), one
// whose sign takes more than a bit (%s), one that lies in what the backward reads (%c).
// CHECK-LABEL: func.func @train
// CHECK-NOT: xi1>
// CHECK: return
func.func @train(%a: tensor<4x4xf32>, %dy: tensor<4x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) attributes {stow.role = #stow.role<train>} {
  %x = stow.matmul %a, %a {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = stow.matmul %a, %x {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = stow.matmul %s, %x {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %j = stow.concat %c, %a {axis = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %d0 = stow.leaky_relu_grad %dy, %x {alpha = 0.1 : f64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w0 = stow.matmul %d0, %x {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = stow.sign %s {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d1 = stow.mul %n, %dy {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d2 = stow.relu_grad %dy, %c {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w2 = stow.matmul %j, %d2 {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %e = stow.slice %w2 {starts = array<i64: 0, 0>, sizes = array<i64: 4, 4>, stow.phase = #stow.phase<backward>} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return %w0, %d1, %e : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Tests values that another op of the backward reads first: computed again where the kernel reads what
// they are made of (%r of %a) or would read as many bytes of a normalization's input (%p of %b), and kept until
// the kernel reads them where it would have to read more (%q of %b and %a).
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<4x4xf32>, %[[B:[a-z0-9]+]]: tensor<4x4xf32>
// CHECK: %[[R:.*]] = stow.map %[[A]] :
// CHECK: %[[P:.*]] = stow.map %[[B]], %{{[a-z0-9]+}} :
// CHECK: %[[Q:.*]] = stow.map %[[A]], %[[B]], %{{[a-z0-9]+}} :
// CHECK: %[[D:.*]] = stow.matmul %[[R]], %[[P]] {stow.phase = #stow.phase<backward>
// CHECK: %[[D2:.*]] = stow.matmul %[[D]], %[[Q]] {stow.phase = #stow.phase<backward>
// CHECK-NEXT: %[[R2:.*]] = stow.map %[[A]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.map %[[R2]], %[[A]], %[[D]] {stow.phase = #stow.phase<backward>}
// CHECK: %[[P2:.*]] = stow.map %[[B]], %{{[a-z0-9]+}} {stow.phase = #stow.phase<backward>}
// CHECK: stow.map %[[D]], %[[P2]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.map %[[D2]], %[[Q]] {stow.phase = #stow.phase<backward>}
func.func @train(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %s: tensor<4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) attributes {stow.role = #stow.role<train>} {
  %r = stow.relu %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m, %v, %k = stow.batch_norm_statistics %b, %s {epsilon = 1.0e-5 : f64} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %m2 = stow.reshape %m : (tensor<4xf32>) -> tensor<1x4xf32>
  %n = stow.sub %b, %m2 : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %p = stow.relu %n : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = stow.sub %b, %m2 : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %u = stow.add %t, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = stow.relu %u : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = stow.matmul %p, %q {transpose_a = true, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = stow.matmul %r, %p {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d2 = stow.matmul %d, %q {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = stow.mul %a, %d {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = stow.relu_grad %c, %r {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = stow.relu_grad %d, %p {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = stow.relu_grad %d2, %q {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w = stow.matmul %a, %b {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %x = stow.matmul %e, %f {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = stow.matmul %x, %g {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z, %w, %y, %x : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
