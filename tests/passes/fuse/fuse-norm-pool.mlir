// RUN: stowage-opt %s --stow-fuse-norm-pool --split-input-file | FileCheck %s

// Tests that a normalization and its pooling become one op, their gradients another, and that running
// statistics read the new one's.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">> {{[^:]*}}, %[[DP:[a-z0-9]+]]: tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">> {{[^:]*}}, %[[S:[a-z0-9]+]]: tensor<8xf32> {{[^:]*}}, %[[B:[a-z0-9]+]]: tensor<8xf32>
// CHECK: %[[P:.*]], %[[I:.*]], %[[M:.*]], %[[V:.*]] = stow.batch_norm_max_pool %[[X]], %[[S]], %[[B]] {dilations = array<i64: 1, 1>, epsilon = 1.000000e-05 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x3x3xi8, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
// CHECK-NEXT: %[[R:.*]] = stow.relu %[[P]]
// CHECK-NEXT: %[[DX:.*]], %[[DS:.*]], %[[DB:.*]] = stow.batch_norm_max_pool_gradient %[[X]], %[[M]], %[[V]], %[[S]], %[[DP]], %[[I]] {dilations = array<i64: 1, 1>, epsilon = 1.000000e-05 : f64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, stow.phase = #stow.phase<backward>, strides = array<i64: 2, 2>}
// CHECK-NEXT: return %[[R]], %[[DX]], %[[DS]], %[[DB]], %[[M]]
func.func @train(%x: tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %dp: tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %s: tensor<8xf32> {stow.kind = #stow.kind<parameter>}, %b: tensor<8xf32> {stow.kind = #stow.kind<parameter>}) -> (tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
  %p, %i = stow.max_pool_training %y {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x3x3xi8, #stow.layout<"0,2,3,1">>)
  %r = stow.relu %p : (tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>
  %dy = stow.max_pool_grad %dp, %i {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, stow.phase = #stow.phase<backward>} : (tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x3x3xi8, #stow.layout<"0,2,3,1">>) -> tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>
  %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %dy {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
  return %r, %dx, %ds, %db, %m : tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Tests a normalization that something else reads as well, a skip connection say: its four ops stay.
// CHECK-LABEL: func.func @train
// CHECK: stow.batch_norm_training
// CHECK: stow.max_pool_training
// CHECK: stow.max_pool_grad
// CHECK: stow.batch_norm_grad
func.func @train(%x: tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %dp: tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %s: tensor<8xf32> {stow.kind = #stow.kind<parameter>}, %b: tensor<8xf32> {stow.kind = #stow.kind<parameter>}) -> (tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
  %p, %i = stow.max_pool_training %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x3x3xi8, #stow.layout<"0,2,3,1">>)
  %dy = stow.max_pool_grad %dp, %i {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, stow.phase = #stow.phase<backward>} : (tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x3x3xi8, #stow.layout<"0,2,3,1">>) -> tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>
  %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %dy {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
  return %p, %dx, %y : tensor<2x8x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>
}

// -----

// Tests row-major tensors, which the target's loops do not take: the four ops stay.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.batch_norm_max_pool
// CHECK: stow.batch_norm_grad
func.func @train(%x: tensor<2x8x6x6xf32> {stow.kind = #stow.kind<input>}, %dp: tensor<2x8x3x3xf32> {stow.kind = #stow.kind<input>}, %s: tensor<8xf32> {stow.kind = #stow.kind<parameter>}, %b: tensor<8xf32> {stow.kind = #stow.kind<parameter>}) -> (tensor<2x8x3x3xf32>, tensor<2x8x6x6xf32>) attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>)
  %p, %i = stow.max_pool_training %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x8x6x6xf32>) -> (tensor<2x8x3x3xf32>, tensor<2x8x3x3xi8>)
  %dy = stow.max_pool_grad %dp, %i {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, stow.phase = #stow.phase<backward>} : (tensor<2x8x3x3xf32>, tensor<2x8x3x3xi8>) -> tensor<2x8x6x6xf32>
  %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %dy {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x6x6xf32>) -> (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>)
  return %p, %dx : tensor<2x8x3x3xf32>, tensor<2x8x6x6xf32>
}

// -----

// Tests positions of half a byte, which 16 channels have in small windows.
// CHECK-LABEL: func.func @train
// CHECK: stow.batch_norm_max_pool %{{.*}} -> (tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x3x3xi8, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>)
// CHECK: stow.batch_norm_max_pool_gradient %{{.*}} : (tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x3x3xi8, #stow.layout<"0,2,3,1">>)
func.func @train(%x: tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %dp: tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %s: tensor<16xf32> {stow.kind = #stow.kind<parameter>}, %b: tensor<16xf32> {stow.kind = #stow.kind<parameter>}) -> (tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>)
  %p, %i = stow.max_pool_training %y {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x16x3x3xi8, #stow.layout<"0,2,3,1">>)
  %r = stow.relu %p : (tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">>
  %dy = stow.max_pool_grad %dp, %i {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, stow.phase = #stow.phase<backward>} : (tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x16x3x3xi8, #stow.layout<"0,2,3,1">>) -> tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>
  %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %dy {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>)
  return %r, %dx, %ds, %db, %m : tensor<2x16x3x3xf32, #stow.layout<"0,2,3,1">>, tensor<2x16x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}
