// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that reading and adding by index print and parse, with indices for all columns and of each.
// CHECK-LABEL: func.func @along
func.func @along(%x: tensor<4x9x6xf32>, %i: tensor<1x2x1xi32>, %j: tensor<4x2x6xi64>) {
  // CHECK: stow.take_along %{{.*}} {axis = 1 : i64} : (tensor<4x9x6xf32>, tensor<1x2x1xi32>) -> tensor<4x2x6xf32>
  %0 = stow.take_along %x, %i {axis = 1 : i64} : (tensor<4x9x6xf32>, tensor<1x2x1xi32>) -> tensor<4x2x6xf32>
  // CHECK: stow.scatter_max %{{.*}} {axis = 1 : i64} : (tensor<4x2x6xf32>, tensor<4x2x6xf32>, tensor<4x2x6xi64>) -> tensor<4x2x6xf32>
  %max = stow.scatter_max %0, %0, %j {axis = 1 : i64} : (tensor<4x2x6xf32>, tensor<4x2x6xf32>, tensor<4x2x6xi64>) -> tensor<4x2x6xf32>
  // CHECK: stow.scatter_mul %{{.*}} {axis = 1 : i64} : (tensor<4x2x6xf32>, tensor<4x2x6xf32>, tensor<4x2x6xi64>) -> tensor<4x2x6xf32>
  %mul = stow.scatter_mul %0, %0, %j {axis = 1 : i64} : (tensor<4x2x6xf32>, tensor<4x2x6xf32>, tensor<4x2x6xi64>) -> tensor<4x2x6xf32>
  // CHECK: stow.scatter_along %{{.*}} {axis = 1 : i64, extent = 9 : i64} : (tensor<4x2x6xf32>, tensor<4x2x6xi64>) -> tensor<4x9x6xf32>
  %1 = stow.scatter_along %0, %j {axis = 1 : i64, extent = 9 : i64} : (tensor<4x2x6xf32>, tensor<4x2x6xi64>) -> tensor<4x9x6xf32>
  return
}

// Tests that boxes in steps print and parse.
// CHECK-LABEL: func.func @strided
func.func @strided(%x: tensor<8x8xi64>) {
  // CHECK: stow.strided_slice %{{.*}} {sizes = array<i64: 4, 8>, starts = array<i64: 0, 7>, steps = array<i64: 2, -1>} : (tensor<8x8xi64>) -> tensor<4x8xi64>
  %0 = stow.strided_slice %x {starts = array<i64: 0, 7>, sizes = array<i64: 4, 8>, steps = array<i64: 2, -1>} : (tensor<8x8xi64>) -> tensor<4x8xi64>
  // CHECK: stow.strided_pad %{{.*}} {shape = array<i64: 8, 8>, starts = array<i64: 0, 7>, steps = array<i64: 2, -1>} : (tensor<4x8xi64>) -> tensor<8x8xi64>
  %1 = stow.strided_pad %0 {starts = array<i64: 0, 7>, steps = array<i64: 2, -1>, shape = array<i64: 8, 8>} : (tensor<4x8xi64>) -> tensor<8x8xi64>
  return
}

// Tests that order and running sums print and parse.
// CHECK-LABEL: func.func @order
func.func @order(%x: tensor<4x8xf32>) {
  // CHECK: stow.top_k %{{.*}} {axis = 1 : i64, k = 2 : i64, largest = true} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  %v, %i = stow.top_k %x {axis = 1 : i64, k = 2 : i64, largest = true} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  // CHECK: stow.cumsum %{{.*}} {axis = 1 : i64, exclusive = false, reverse = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = stow.cumsum %x {axis = 1 : i64, exclusive = false, reverse = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
