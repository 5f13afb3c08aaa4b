// RUN: stowage-opt %s --stow-plan-workspaces --split-input-file | FileCheck %s

// Tests that a library call gets the scratch the target asks for. How much depends on the processor;
// a batch normalization keeps sums of every channel in it everywhere. Calls that need none carry no
// attribute, and a stale figure goes.
// CHECK-LABEL: func.func @train
// CHECK-NOT: 12345
// CHECK: stow.batch_norm_training {{.*}}stow.workspace = {{[1-9][0-9]+}} : i64
// CHECK: stow.max_pool_training
// CHECK-NOT: stow.workspace
// CHECK: return
func.func @train(%x: tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, %c: tensor<16xf32>, %z: tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) attributes {stow.role = #stow.role<train>} {
  %y:3 = stow.batch_norm_training %x, %c, %c {epsilon = 1.0e-5 : f64, stow.workspace = 12345 : i64} : (tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>)
  %p, %i = stow.max_pool_training %z {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, stow.workspace = 12345 : i64}
      : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x8x2x2xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x2x2xi8, #stow.layout<"0,2,3,1">>)
  return
}

// -----

// Tests that every graph is asked, and that ops that are no library calls are left alone.
// CHECK-LABEL: func.func @train
// CHECK: stow.batch_norm_training {{.*}}stow.workspace =
// CHECK-LABEL: func.func @eval
// CHECK: stow.batch_norm_training {{.*}}stow.workspace =
// CHECK-NEXT: stow.tanh %{{[a-z0-9#_]+}} :
func.func @train(%x: tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, %c: tensor<16xf32>) attributes {stow.role = #stow.role<train>} {
  %y:3 = stow.batch_norm_training %x, %c, %c {epsilon = 1.0e-5 : f64} : (tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>)
  return
}
func.func @eval(%x: tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, %c: tensor<16xf32>) attributes {stow.role = #stow.role<eval>} {
  %y:3 = stow.batch_norm_training %x, %c, %c {epsilon = 1.0e-5 : f64} : (tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>, tensor<16xf32>, tensor<16xf32>)
  %t = stow.tanh %y#0 : (tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>) -> tensor<8x16x14x14xf32, #stow.layout<"0,2,3,1">>
  return
}
