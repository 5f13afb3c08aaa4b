// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that detach prints and parses.
// CHECK-LABEL: func.func @detach
func.func @detach(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: stow.detach %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = stow.detach %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.in_training %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = stow.in_training %y, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
