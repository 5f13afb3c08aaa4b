// RUN: stowage-opt %s --stow-chunk-rows=loss-chunks=8 | FileCheck %s

// Tests fewer rows than chunks: one row a chunk, so that a smaller batch takes no more than a larger one.
// CHECK-LABEL: func.func @train
// CHECK-COUNT-3: stow.cross_entropy_rows_grad {{.*}} -> tensor<1x6xf32>
// CHECK-NOT: tensor<3x6xf32>
func.func @train(%x: tensor<3x4xf32>, %t: tensor<3xi64>, %w: tensor<6x4xf32>, %drow: tensor<3xf32>) -> (tensor<3xf32>, tensor<3x4xf32>) attributes {stow.role = #stow.role<train>} {
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<3x4xf32>, tensor<6x4xf32>) -> tensor<3x6xf32>
  %l, %s = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<3x6xf32>, tensor<3xi64>) -> (tensor<3xf32>, tensor<3xf32>)
  %g = stow.cross_entropy_rows_grad %y, %t, %s, %drow {ignore_index = -100 : i64, stow.phase = #stow.phase<backward>} : (tensor<3x6xf32>, tensor<3xi64>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x6xf32>
  %dx = stow.matmul %g, %w {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<3x6xf32>, tensor<6x4xf32>) -> tensor<3x4xf32>
  return %l, %dx : tensor<3xf32>, tensor<3x4xf32>
}
