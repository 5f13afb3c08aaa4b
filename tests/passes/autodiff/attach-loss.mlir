// RUN: stowage-opt %s --stow-attach-loss --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-attach-loss="loss=mse:reduction=sum" --split-input-file | FileCheck %s --check-prefix=MSE
// RUN: stowage-opt %s --stow-attach-loss="loss=cross-entropy:reduction=sum,ignore-index=7" --split-input-file | FileCheck %s --check-prefix=TOTAL
// RUN: stowage-opt %s --stow-attach-loss="loss=cross-entropy:class-axis=-1" --split-input-file | FileCheck %s --check-prefix=LAST

// Tests that the mean divides by the targets that count, that state results stay, and that a softmax
// at the end is taken off for cross-entropy only.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x10xf32>
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<4xf32>
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<8xi64> {stow.kind = #stow.kind<target>, stow.name = "target"}
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.state = "s"})
// CHECK-NEXT: %[[ROWS:.*]], %{{.*}} = stow.cross_entropy_rows %[[X]], %[[T]] {ignore_index = -100 : i64}
// CHECK-NEXT: %[[SUM:.*]] = stow.reduce_sum %[[ROWS]] {axes = array<i64: 0>, keepdims = false}
// CHECK-NEXT: %[[N:.*]] = stow.count_valid %[[T]] {element_type = f32, ignore_index = -100 : i64}
// CHECK-NEXT: %[[LOSS:.*]] = stow.div %[[SUM]], %[[N]]
// CHECK-NEXT: return %[[LOSS]], %[[S]]
// MSE-LABEL: func.func @train
// MSE-SAME: %[[T:[a-z0-9]+]]: tensor<8x10xf32> {stow.kind = #stow.kind<target>, stow.name = "target"}
// MSE-NEXT: %[[Y:.*]] = stow.softmax
// MSE-NEXT: %[[D:.*]] = stow.sub %[[Y]], %[[T]]
// MSE-NEXT: %[[Q:.*]] = stow.mul %[[D]], %[[D]]
// MSE-NEXT: %[[L:.*]] = stow.reduce_sum %[[Q]] {axes = array<i64: 0, 1>, keepdims = false}
// MSE-NEXT: return %[[L]]
// TOTAL-LABEL: func.func @train
// TOTAL: %[[ROWS:.*]], %{{.*}} = stow.cross_entropy_rows {{.*}} {ignore_index = 7 : i64}
// TOTAL-NEXT: %[[SUM:.*]] = stow.reduce_sum %[[ROWS]]
// TOTAL-NEXT: return %[[SUM]]
func.func @train(%x: tensor<8x10xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>},
    %s: tensor<4xf32> {stow.name = "s", stow.kind = #stow.kind<statistic>})
    -> (tensor<8x10xf32> {stow.name = "y"}, tensor<4xf32> {stow.state = "s"}) attributes {stow.role = #stow.role<train>} {
  %y = stow.softmax %x {axis = 1 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>
  return %y, %s : tensor<8x10xf32>, tensor<4xf32>
}

// -----

// Tests that a map of scores [N,C,h,w] becomes rows of classes and takes targets [N,h,w].
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<2x3x4xi64> {stow.kind = #stow.kind<target>, stow.name = "target"}
// CHECK: %[[TR:.*]] = stow.reshape %[[T]] : (tensor<2x3x4xi64>) -> tensor<24xi64>
// CHECK: %[[P:.*]] = stow.transpose %{{.*}} {permutation = array<i64: 0, 2, 3, 1>}
// CHECK: %[[R:.*]] = stow.reshape %[[P]] : (tensor<2x3x4x5xf32>) -> tensor<24x5xf32>
// CHECK: stow.cross_entropy_rows %[[R]], %[[TR]]
// Classes along the last dimension are rows already; the log_softmax runs along another one and stays.
// LAST-LABEL: func.func @train(%{{.*}}: tensor<2x5x3x4xf32>
// LAST-SAME: %[[T:[a-z0-9]+]]: tensor<2x5x3xi64> {stow.kind = #stow.kind<target>, stow.name = "target"}
// LAST: stow.log_softmax
// LAST-NOT: stow.transpose
// LAST: stow.reshape %{{.*}} : (tensor<2x5x3x4xf32>) -> tensor<30x4xf32>
func.func @train(%x: tensor<2x5x3x4xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
    -> (tensor<2x5x3x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  %y = stow.log_softmax %x {axis = 1 : i64} : (tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32>
  return %y : tensor<2x5x3x4xf32>
}

// -----

// Tests that scores [N,C,1,1], as a convolutional classifier ends in, take targets [N].
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<8xi64> {stow.kind = #stow.kind<target>, stow.name = "target"}
// CHECK-NEXT: %[[R:.*]] = stow.reshape %{{.*}} : (tensor<8x10x1x1xf32>) -> tensor<8x10xf32>
// CHECK-NEXT: stow.cross_entropy_rows %[[R]], %[[T]]
func.func @train(%x: tensor<8x10x1x1xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
    -> (tensor<8x10x1x1xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  return %x : tensor<8x10x1x1xf32>
}

// -----

// Tests that integer outputs do not count as outputs, and that ops of outputs nobody reads go.
// CHECK-LABEL: func.func @train
// CHECK-NOT: max_pool
// CHECK: return %{{[a-z0-9]+}} : tensor<f32>
func.func @train(%x: tensor<1x10xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>}, %z: tensor<1x1x4x4xf32> {stow.name = "z", stow.kind = #stow.kind<input>})
    -> (tensor<1x10xf32> {stow.name = "y"}, tensor<1x1x2x2xi8> {stow.name = "i"}) attributes {stow.role = #stow.role<train>} {
  %p, %i = stow.max_pool_training %z {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x1x4x4xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi8>)
  return %x, %i : tensor<1x10xf32>, tensor<1x1x2x2xi8>
}

// -----

// Tests that scores [N*d,C] of N samples take targets [N,d]: every sample brings its own.
// CHECK-LABEL: func.func @train(%{{.*}}: tensor<6x10xf32>
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<2x3xi64> {stow.kind = #stow.kind<target>, stow.name = "target"}
// CHECK: %[[R:.*]] = stow.reshape %[[T]] : (tensor<2x3xi64>) -> tensor<6xi64>
// CHECK: stow.cross_entropy_rows %{{.*}}, %[[R]]
func.func @train(%x: tensor<6x10xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>}, %z: tensor<2x3xi64> {stow.name = "z", stow.kind = #stow.kind<input>})
    -> (tensor<6x10xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  return %x : tensor<6x10xf32>
}
