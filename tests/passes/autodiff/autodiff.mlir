// RUN: stowage-opt %s --stow-autodiff --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-autodiff=saved=mask --split-input-file | FileCheck %s --check-prefix=MASK
// RUN: stowage-opt %s --stow-autodiff=saved=input --split-input-file | FileCheck %s --check-prefix=INPUT

// Tests that gradients are results marked with their parameter, that nothing is built for data, and
// that backward ops carry their phase and their op's location.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w"}
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.gradient_of = "w", stow.name = "w.grad"})
// CHECK: %[[LOSS:.*]] = stow.reduce_sum
// CHECK: %[[ONE:.*]] = stow.constant {stow.phase = #stow.phase<backward>} dense<1.000000e+00> : tensor<f32>
// CHECK: %[[R:.*]] = stow.reshape %[[ONE]] {stow.phase = #stow.phase<backward>}
// CHECK: %[[DY:.*]] = stow.broadcast_to %[[R]] {stow.phase = #stow.phase<backward>} : (tensor<1xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[DW:.*]] = stow.mul %[[DY]], %[[X]] {stow.phase = #stow.phase<backward>}
// CHECK-NEXT: return %[[LOSS]], %[[DW]]
func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Tests that contributions are added as soon as the second exists (before the sigmoid's gradient is
// built), and that a broadcast operand's gradient is summed.
// CHECK-LABEL: func.func @train
// CHECK: %[[S:.*]] = stow.sigmoid
// CHECK: %[[D1:.*]] = stow.mul {{.*}} {stow.phase = #stow.phase<backward>}
// CHECK: %[[D2:.*]] = stow.mul {{.*}} {stow.phase = #stow.phase<backward>}
// CHECK-NEXT: %[[SUM:.*]] = stow.reduce_sum %[[D2]] {axes = array<i64: 0>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<2x4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[D:.*]] = stow.add %[[D1]], %[[SUM]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.sub %{{.*}}, %[[S]] {stow.phase = #stow.phase<backward>}
func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %x: tensor<2x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %z: tensor<4xf32> {stow.name = "z", stow.kind = #stow.kind<input>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %s = stow.sigmoid %w : (tensor<4xf32>) -> tensor<4xf32>
  %a = stow.mul %s, %x : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %b = stow.mul %s, %z : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l1 = stow.reduce_sum %a {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x4xf32>) -> tensor<f32>
  %l2 = stow.reduce_sum %b {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  %l = stow.add %l1, %l2 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Tests what relu saves: its output when the next product keeps that anyway (through a view here),
// a mask of one byte when nobody else does. The mask is computed in the forward.
// CHECK-LABEL: func.func @train
// CHECK: %[[R1:.*]] = stow.relu
// CHECK-NOT: positive_mask
// CHECK: stow.matmul
// CHECK: %[[R2:.*]] = stow.relu
// CHECK-NEXT: %[[M:.*]] = stow.positive_mask %[[R2]] : (tensor<2x3xf32>) -> tensor<2x3xi1>
// CHECK: stow.relu_grad %{{.*}}, %[[M]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.relu_grad %{{.*}}, %[[R1]] {stow.phase = #stow.phase<backward>}
// MASK: stow.relu
// MASK-NEXT: stow.positive_mask
// MASK: stow.relu
// MASK-NEXT: stow.positive_mask
// INPUT: %[[A1:.*]] = stow.matmul
// INPUT-NEXT: stow.relu %[[A1]]
// INPUT: %[[A2:.*]] = stow.matmul
// INPUT-NEXT: stow.relu %[[A2]]
// INPUT: stow.relu_grad %{{.*}}, %[[A2]]
// INPUT: stow.relu_grad %{{.*}}, %[[A1]]
func.func @train(%x: tensor<2x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %w1: tensor<4x6xf32> {stow.name = "w1", stow.kind = #stow.kind<parameter>},
    %w2: tensor<6x3xf32> {stow.name = "w2", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %0 = stow.matmul %x, %w1 {transpose_a = false, transpose_b = false} : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %1 = stow.relu %0 : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %2 = stow.reshape %1 : (tensor<2x6xf32>) -> tensor<1x2x6xf32>
  %3 = stow.reshape %2 : (tensor<1x2x6xf32>) -> tensor<2x6xf32>
  %4 = stow.matmul %3, %w2 {transpose_a = false, transpose_b = false} : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32>
  %5 = stow.relu %4 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %l = stow.reduce_sum %5 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Tests that only gradients that are built keep a value: the product that reads the first relu is
// returned, but no part of the loss, so that a mask is saved. The gradient of exp keeps its result,
// which the second relu reads: no mask there.
// CHECK-LABEL: func.func @train
// CHECK: %[[R1:.*]] = stow.relu
// CHECK-NEXT: %[[M:.*]] = stow.positive_mask %[[R1]]
// CHECK: %[[E:.*]] = stow.exp
// CHECK-NEXT: stow.relu %[[E]]
// CHECK-NOT: positive_mask
// CHECK: stow.relu_grad %{{.*}}, %[[E]] {stow.phase = #stow.phase<backward>}
// CHECK: stow.relu_grad %{{.*}}, %[[M]] {stow.phase = #stow.phase<backward>}
func.func @train(%x: tensor<2x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %w1: tensor<4x6xf32> {stow.name = "w1", stow.kind = #stow.kind<parameter>},
    %w2: tensor<6x3xf32> {stow.name = "w2", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}, tensor<2x3xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  %0 = stow.matmul %x, %w1 {transpose_a = false, transpose_b = false} : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %1 = stow.relu %0 : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %2 = stow.matmul %1, %w2 {transpose_a = false, transpose_b = false} : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32>
  %3 = stow.exp %1 : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %4 = stow.relu %3 : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %l = stow.reduce_sum %4 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x6xf32>) -> tensor<f32>
  return %l, %2 : tensor<f32>, tensor<2x3xf32>
}

// -----

// Tests that a matrix shared by a stack of products gets its gradient from one product over all rows.
// CHECK-LABEL: func.func @train
// CHECK: %[[XR:.*]] = stow.reshape %{{.*}} : (tensor<5x2x4xf32>) -> tensor<10x4xf32>
// CHECK: %[[DR:.*]] = stow.reshape %{{.*}} : (tensor<5x2x3xf32>) -> tensor<10x3xf32>
// CHECK: stow.matmul %[[XR]], %[[DR]] {stow.phase = #stow.phase<backward>, transpose_a = true, transpose_b = false} : (tensor<10x4xf32>, tensor<10x3xf32>) -> tensor<4x3xf32>
func.func @train(%x: tensor<5x2x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %w: tensor<4x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %0 = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<5x2x4xf32>, tensor<4x3xf32>) -> tensor<5x2x3xf32>
  %l = stow.reduce_sum %0 {axes = array<i64: 0, 1, 2>, keepdims = false} : (tensor<5x2x3xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Tests that a tensor that is split gets its gradient joined, whatever the order of its readers; that
// boxes which do not touch are padded; and that other readers' contributions are added.
// CHECK-LABEL: func.func @train
// CHECK: stow.concat %{{.*}}, %{{.*}}, %{{.*}} {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x2xf32>, tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
// CHECK-NOT: stow.add
// CHECK: stow.concat %{{.*}}, %{{.*}} {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
// CHECK: %[[P:.*]] = stow.pad %{{.*}} {after = array<i64: 0, 4>, before = array<i64: 0, 0>, stow.phase = #stow.phase<backward>
// CHECK: %[[SUM:.*]] = stow.add
// CHECK-SAME: %[[P]]
func.func @train(%w: tensor<4x6xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
    %v: tensor<4x6xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %a = stow.slice %w {starts = array<i64: 0, 0>, sizes = array<i64: 4, 2>} : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %b = stow.slice %w {starts = array<i64: 0, 2>, sizes = array<i64: 4, 3>} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  %c = stow.slice %w {starts = array<i64: 0, 5>, sizes = array<i64: 4, 1>} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %d = stow.slice %v {starts = array<i64: 0, 0>, sizes = array<i64: 4, 1>} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %e = stow.slice %v {starts = array<i64: 0, 1>, sizes = array<i64: 4, 1>} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %f = stow.slice %v {starts = array<i64: 0, 4>, sizes = array<i64: 4, 2>} : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %ac = stow.mul %a, %c : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %de = stow.mul %d, %e : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %bd = stow.mul %b, %de : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
  %fa = stow.mul %f, %ac : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %s = stow.reduce_sum %fa {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x2xf32>) -> tensor<f32>
  %t = stow.reduce_sum %bd {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x3xf32>) -> tensor<f32>
  %l = stow.add %s, %t : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Tests that nothing flows back through a detach, whose operand takes its place.
// CHECK-LABEL: func.func @train
// CHECK: %[[S:.*]] = stow.sigmoid %[[W:.*]] : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NOT: stow.detach
// CHECK: stow.mul %[[S]], %[[S]]
// CHECK: %[[DS:.*]] = stow.mul %{{.*}}, %[[S]] {stow.phase = #stow.phase<backward>}
// CHECK-NOT: stow.add
// CHECK: return
func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %s = stow.sigmoid %w : (tensor<4xf32>) -> tensor<4xf32>
  %d = stow.detach %s : (tensor<4xf32>) -> tensor<4xf32>
  %y = stow.mul %s, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Tests a sum over the ranks on the way to the loss: what comes back is summed as well.
// CHECK-LABEL: func.func @train
// CHECK: stow.all_reduce %{{.*}} {ranks = 2 : i64} : (tensor<4xf32>)
// CHECK: %[[D:.*]] = stow.all_reduce %{{.*}} {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4xf32>)
// CHECK: stow.mul %[[D]]
func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
  %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = stow.all_reduce %y {ranks = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %l = stow.reduce_sum %s {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
