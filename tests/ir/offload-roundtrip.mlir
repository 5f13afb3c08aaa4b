// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --cse --canonicalize | FileCheck %s

// Tests that copies and awaits print and parse, and that none is left out because nothing reads it.
// CHECK-LABEL: func.func @travels
func.func @travels(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK: %[[TOKEN:.*]] = stow.copy_out %{{.*}} : (tensor<8x64xf32>) -> tensor<0xi8>
  %token = stow.copy_out %x : (tensor<8x64xf32>) -> tensor<0xi8>
  // CHECK: stow.await_out %[[TOKEN]], %{{.*}} : (tensor<0xi8>, tensor<8x64xf32>) -> ()
  stow.await_out %token, %x : (tensor<0xi8>, tensor<8x64xf32>) -> ()
  // CHECK: %[[COMING:.*]] = stow.copy_in %[[TOKEN]] : (tensor<0xi8>) -> tensor<8x64xf32>
  %coming = stow.copy_in %token : (tensor<0xi8>) -> tensor<8x64xf32>
  // CHECK: %{{.*}} = stow.await_in %[[TOKEN]], %[[COMING]] : (tensor<0xi8>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %y = stow.await_in %token, %coming : (tensor<0xi8>, tensor<8x64xf32>) -> tensor<8x64xf32>
  // CHECK: stow.copy_in %[[TOKEN]]
  %again = stow.copy_in %token : (tensor<0xi8>) -> tensor<8x64xf32>
  // CHECK: stow.await_in
  %z = stow.await_in %token, %again : (tensor<0xi8>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %x : tensor<8x64xf32>
}
