// RUN: stowage-opt %s --stow-expand-batch-norm --split-input-file | FileCheck %s

// Tests that the statistics of two nested concats are computed once for each of three tensors, where
// they are made, and joined as the tensors are.
// CHECK-LABEL: func.func @nested
// CHECK-SAME: (%[[A:.*]]: tensor<8x4x2x2xf32>, %[[B:.*]]: tensor<8x2x2x2xf32>, %[[S:.*]]: tensor<6xf32>, %[[T:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[MB:.*]], %[[VB:.*]] = stow.channel_moments %[[B]]
// CHECK-NEXT: %[[MA:.*]], %[[VA:.*]] = stow.channel_moments %[[A]]
// CHECK-NEXT: %[[Y:.*]] = stow.concat %[[A]], %[[B]] {axis = 1 : i64}
// CHECK-NEXT: %[[MY:.*]] = stow.concat %[[MA]], %[[MB]] {axis = 0 : i64}
// CHECK-NEXT: %[[VY:.*]] = stow.concat %[[VA]], %[[VB]] {axis = 0 : i64}
// CHECK: stow.sqrt
// CHECK: %[[SLOPE:.*]] = stow.mul %[[S]]
// CHECK: %[[C:.*]] = stow.sub %[[Y]]
// CHECK: stow.mul %[[C]]
// CHECK: %[[N:.*]] = stow.add
// CHECK-NEXT: %[[E:.*]] = stow.exp
// CHECK-NEXT: %[[ME:.*]], %[[VE:.*]] = stow.channel_moments %[[E]]
// CHECK-NEXT: %[[Z:.*]] = stow.concat %[[Y]], %[[E]] {axis = 1 : i64}
// CHECK-NEXT: %[[MZ:.*]] = stow.concat %[[MY]], %[[ME]] {axis = 0 : i64}
// CHECK-NEXT: %[[VZ:.*]] = stow.concat %[[VY]], %[[VE]] {axis = 0 : i64}
// CHECK-NOT: stow.channel_moments
// CHECK-NOT: stow.batch_norm
// CHECK: return %{{.*}}, %[[MZ]], %[[VZ]]
func.func @nested(%a: tensor<8x4x2x2xf32>, %b: tensor<8x2x2x2xf32>, %s: tensor<6xf32>, %t: tensor<8xf32>)
    -> (tensor<8x8x2x2xf32>, tensor<8xf32>, tensor<8xf32>) {
  %y = stow.concat %a, %b {axis = 1 : i64} : (tensor<8x4x2x2xf32>, tensor<8x2x2x2xf32>) -> tensor<8x6x2x2xf32>
  %n:3 = stow.batch_norm_training %y, %s, %s {epsilon = 1.0e-5 : f64}
      : (tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>)
  %e = stow.exp %b : (tensor<8x2x2x2xf32>) -> tensor<8x2x2x2xf32>
  %z = stow.concat %y, %e {axis = 1 : i64} : (tensor<8x6x2x2xf32>, tensor<8x2x2x2xf32>) -> tensor<8x8x2x2xf32>
  %o:3 = stow.batch_norm_training %z, %t, %t {epsilon = 1.0e-5 : f64}
      : (tensor<8x8x2x2xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x8x2x2xf32>, tensor<8xf32>, tensor<8xf32>)
  return %o#0, %o#1, %o#2 : tensor<8x8x2x2xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Tests that the gradient stays in its phase, that sums are shared by all three results, and that dx
// is not computed where nobody reads it.
// CHECK-LABEL: func.func @gradient
// CHECK: %[[Y:.*]] = stow.concat
// CHECK-NEXT: %[[DS:.*]], %[[DB:.*]] = stow.batch_norm_scale_grad %[[DY:.*]], %[[Y]], %[[M:.*]], %[[M]] {epsilon = 1.000000e-05 : f64, stow.phase = #stow.phase<backward>}
// CHECK-NOT: stow.batch_norm_grad
// CHECK: stow.sub %[[Y]]
// CHECK: stow.sub
// CHECK: %[[DX:.*]] = stow.sub {{.*}} {stow.phase = #stow.phase<backward>} : {{.*}} -> tensor<8x6x2x2xf32>
// CHECK-NEXT: %[[DS2:.*]], %[[DB2:.*]] = stow.batch_norm_scale_grad
// CHECK-NEXT: return %[[DX]], %[[DS]], %[[DB]], %[[DS2]]
func.func @gradient(%a: tensor<8x3x2x2xf32>, %m: tensor<6xf32>, %dy: tensor<8x6x2x2xf32>)
    -> (tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) {
  %y = stow.concat %a, %a {axis = 1 : i64} : (tensor<8x3x2x2xf32>, tensor<8x3x2x2xf32>) -> tensor<8x6x2x2xf32>
  %g:3 = stow.batch_norm_grad %y, %m, %m, %m, %dy {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>}
      : (tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8x6x2x2xf32>)
      -> (tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>)
  %h:3 = stow.batch_norm_grad %y, %m, %m, %m, %dy {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>}
      : (tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8x6x2x2xf32>)
      -> (tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>)
  return %g#0, %g#1, %g#2, %h#1 : tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
}

// -----

// Tests that an input that is normalized itself has its statistics computed once, and that its
// gradient reads it from the concat from where the concat would have died: the input dies early.
// CHECK-LABEL: func.func @first
// CHECK-SAME: (%[[A:.*]]: tensor<8x3x2x2xf32>, %[[B:.*]]: tensor<8x1x2x2xf32>
// CHECK: stow.channel_moments %[[B]]
// CHECK: stow.channel_moments %[[A]]
// CHECK: stow.sub %[[A]]
// CHECK: %[[Y:.*]] = stow.concat %[[B]], %[[A]]
// CHECK-NOT: stow.channel_moments
// CHECK: stow.batch_norm_scale_grad %{{.*}}, %[[Y]]
// CHECK: %[[S:.*]] = stow.slice %[[Y]] {sizes = array<i64: 8, 3, 2, 2>, starts = array<i64: 0, 1, 0, 0>, stow.phase = #stow.phase<backward>}
// CHECK: stow.exp
// CHECK: stow.batch_norm_scale_grad %{{.*}}, %[[S]]
// CHECK-NOT: %[[A]]
// CHECK: stow.sub %[[S]]
// CHECK-NOT: %[[A]]
// CHECK: return
func.func @first(%a: tensor<8x3x2x2xf32>, %b: tensor<8x1x2x2xf32>, %s: tensor<3xf32>, %t: tensor<4xf32>,
                 %da: tensor<8x3x2x2xf32>, %dy: tensor<8x4x2x2xf32>)
    -> (tensor<8x3x2x2xf32>, tensor<8x4x2x2xf32>, tensor<8x4x2x2xf32>, tensor<8x3x2x2xf32>) {
  %n:3 = stow.batch_norm_training %a, %s, %s {epsilon = 1.0e-5 : f64}
      : (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>)
  %y = stow.concat %b, %a {axis = 1 : i64} : (tensor<8x1x2x2xf32>, tensor<8x3x2x2xf32>) -> tensor<8x4x2x2xf32>
  %o:3 = stow.batch_norm_training %y, %t, %t {epsilon = 1.0e-5 : f64}
      : (tensor<8x4x2x2xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x2x2xf32>, tensor<4xf32>, tensor<4xf32>)
  %g:3 = stow.batch_norm_grad %y, %o#1, %o#2, %t, %dy {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>}
      : (tensor<8x4x2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8x4x2x2xf32>)
      -> (tensor<8x4x2x2xf32>, tensor<4xf32>, tensor<4xf32>)
  %e = stow.exp %da {stow.phase = #stow.phase<backward>} : (tensor<8x3x2x2xf32>) -> tensor<8x3x2x2xf32>
  %h:3 = stow.batch_norm_grad %a, %n#1, %n#2, %s, %e {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>}
      : (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<8x3x2x2xf32>)
      -> (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>)
  return %n#0, %o#0, %g#0, %h#0 : tensor<8x3x2x2xf32>, tensor<8x4x2x2xf32>, tensor<8x4x2x2xf32>, tensor<8x3x2x2xf32>
}

// -----

// Tests that running statistics are read as they are, and that normalizations of other tensors and
// of concats along other axes stay calls of the library.
// CHECK-LABEL: func.func @evaluation
// CHECK-SAME: (%[[X:.*]]: tensor<8x3x2x2xf32>, %[[V:.*]]: tensor<6xf32>, %[[W:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[Y:.*]] = stow.concat {{.*}} {axis = 1 : i64}
// CHECK-NOT: stow.channel_moments
// CHECK: stow.sub %[[Y]]
// CHECK: %[[Z:.*]] = stow.concat {{.*}} {axis = 0 : i64}
// CHECK-NEXT: stow.batch_norm %[[Z]]
// CHECK-NEXT: stow.batch_norm %[[X]]
func.func @evaluation(%x: tensor<8x3x2x2xf32>, %v: tensor<6xf32>, %w: tensor<3xf32>)
    -> (tensor<8x6x2x2xf32>, tensor<16x3x2x2xf32>, tensor<8x3x2x2xf32>) attributes {stow.role = #stow.role<eval>} {
  %y = stow.concat %x, %x {axis = 1 : i64} : (tensor<8x3x2x2xf32>, tensor<8x3x2x2xf32>) -> tensor<8x6x2x2xf32>
  %0 = stow.batch_norm %y, %v, %v, %v, %v {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
      : (tensor<8x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<8x6x2x2xf32>
  %z = stow.concat %x, %x {axis = 0 : i64} : (tensor<8x3x2x2xf32>, tensor<8x3x2x2xf32>) -> tensor<16x3x2x2xf32>
  %1 = stow.batch_norm %z, %w, %w, %w, %w {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
      : (tensor<16x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<16x3x2x2xf32>
  %2 = stow.batch_norm %x, %w, %w, %w, %w {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
      : (tensor<8x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<8x3x2x2xf32>
  return %0, %1, %2 : tensor<8x6x2x2xf32>, tensor<16x3x2x2xf32>, tensor<8x3x2x2xf32>
}
