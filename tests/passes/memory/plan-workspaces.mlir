// RUN: stowage-opt %s --stow-plan-workspaces --split-input-file | FileCheck %s

// Tests that a library call gets the scratch the target asks for. How much depends on the processor;
// a transposed operand is copied by every implementation, here 16*64*4 = 4096 bytes or more. Calls
// that need none carry no attribute, and a stale figure goes.
// CHECK-LABEL: func.func @train
// CHECK-NOT: 12345
// CHECK: stow.matmul {{.*}}stow.workspace = {{[4-9][0-9][0-9][0-9]|[0-9]+[0-9][0-9][0-9][0-9]}} : i64
// CHECK: stow.max_pool_training
// CHECK-NOT: stow.workspace
// CHECK: return
func.func @train(%x: tensor<16x64xf32>, %z: tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) {
  %y = stow.matmul %x, %x {transpose_a = true, transpose_b = false, stow.workspace = 12345 : i64} : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
  %p, %i = stow.max_pool_training %z {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, stow.workspace = 12345 : i64}
      : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x8x2x2xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x2x2xi8, #stow.layout<"0,2,3,1">>)
  %s = stow.softmax %y {axis = 1 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return
}

// -----

// Tests that every graph is asked, and that ops that are no library calls are left alone.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul {{.*}}stow.workspace =
// CHECK-LABEL: func.func @eval
// CHECK: stow.matmul {{.*}}stow.workspace =
// CHECK-NEXT: stow.softmax %{{.*}} {axis = 1 : i64} :
func.func @train(%x: tensor<16x64xf32>) {
  %y = stow.matmul %x, %x {transpose_a = true, transpose_b = false} : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
  return
}
func.func @eval(%x: tensor<16x64xf32>) {
  %y = stow.matmul %x, %x {transpose_a = true, transpose_b = false} : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
  %s = stow.softmax %y {axis = 1 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return
}
