// RUN: stowage-opt %s --stow-split-batch-norm --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-split-batch-norm --stow-fuse-elementwise --split-input-file | FileCheck %s --check-prefix=FUSED

// Tests a normalization that relu reads: its statistics, and a kernel of x, mean, slope and bias, which
// relu becomes part of. Its gradient reads the statistics.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">> {{[^:]*}}, %[[S:[a-z0-9]+]]: tensor<8xf32> {{[^:]*}}, %[[B:[a-z0-9]+]]: tensor<8xf32>
// CHECK: %[[M:.*]], %[[V:.*]], %[[K:.*]] = stow.batch_norm_statistics %[[X]], %[[S]] {epsilon = 1.000000e-05 : f64}
// CHECK-DAG: %[[M4:.*]] = stow.reshape %[[M]] : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
// CHECK-DAG: %[[K4:.*]] = stow.reshape %[[K]] : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
// CHECK-DAG: %[[B4:.*]] = stow.reshape %[[B]] : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
// CHECK: %[[Y:.*]] = stow.map %[[X]], %[[M4]], %[[K4]], %[[B4]]
// CHECK-NEXT: ^bb0(%[[XE:.*]]: f32, %[[ME:.*]]: f32, %[[KE:.*]]: f32, %[[BE:.*]]: f32):
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[XE]], %[[ME]] : f32
// CHECK-NEXT: %[[YE:.*]] = math.fma %[[D]], %[[KE]], %[[BE]] : f32
// CHECK-NEXT: stow.yield %[[YE]] : f32
// CHECK: stow.relu %[[Y]]
// CHECK: stow.batch_norm_grad %[[X]], %[[M]], %[[V]], %[[S]]
// FUSED-LABEL: func.func @train
// FUSED: stow.batch_norm_statistics
// FUSED: stow.map
// FUSED: math.fma
// FUSED: arith.maximumf
// FUSED: stow.map
// FUSED: stow.batch_norm_grad
func.func @train(%x: tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %s: tensor<8xf32> {stow.kind = #stow.kind<parameter>}, %b: tensor<8xf32> {stow.kind = #stow.kind<parameter>}, %dr: tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
  %r = stow.relu %y : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>
  %dy = stow.relu_grad %dr, %r {stow.phase = #stow.phase<backward>} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>
  %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %dy {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
  return %r, %dx : tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>
}

// -----

// Tests 16-bit elements: they are normalized in f32, and rounded.
// CHECK-LABEL: func.func @train
// CHECK: stow.map
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: math.fma
// CHECK: arith.truncf %{{.*}} : f32 to bf16
func.func @train(%x: tensor<2x8x6x6xbf16, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %s: tensor<8xf32> {stow.kind = #stow.kind<parameter>}, %b: tensor<8xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<2x8x6x6xbf16, #stow.layout<"0,2,3,1">> attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xbf16, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xbf16, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
  %r = stow.relu %y : (tensor<2x8x6x6xbf16, #stow.layout<"0,2,3,1">>) -> tensor<2x8x6x6xbf16, #stow.layout<"0,2,3,1">>
  return %r : tensor<2x8x6x6xbf16, #stow.layout<"0,2,3,1">>
}

// -----

// Tests a normalization that something else reads as well, here who asked for it: it is written anyway,
// and stays whole.
// CHECK-LABEL: func.func @train
// CHECK: stow.batch_norm_training
func.func @train(%x: tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>}, %s: tensor<8xf32> {stow.kind = #stow.kind<parameter>}, %b: tensor<8xf32> {stow.kind = #stow.kind<parameter>}) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<8xf32>, tensor<8xf32>)
  %r = stow.relu %y : (tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>
  return %r, %y : tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x6x6xf32, #stow.layout<"0,2,3,1">>
}

// -----

// Tests row-major tensors, for which the target has no statistics alone: the normalization stays whole.
// CHECK-LABEL: func.func @train
// CHECK: stow.batch_norm_training
func.func @train(%x: tensor<2x8x6x6xf32> {stow.kind = #stow.kind<input>}, %s: tensor<8xf32> {stow.kind = #stow.kind<parameter>}, %b: tensor<8xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<2x8x6x6xf32> attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>)
  %r = stow.relu %y : (tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
  return %r : tensor<2x8x6x6xf32>
}
