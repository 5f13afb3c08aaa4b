// RUN: stowage-opt --stow-assign-precision=precision=f16 %s | FileCheck %s

// What is added up over ranks is as wide as what is added up over batches: as the product sums it, without a cast.
// CHECK-LABEL: @train(
// CHECK: %[[DW:.*]] = stow.matmul {{.*}} : (tensor<8x3xf16>, tensor<8x4xf16>) -> tensor<3x4xf32>
// CHECK-NEXT: %[[SUM:.*]] = stow.all_reduce %[[DW]] {{.*}} : (tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK: %[[DV:.*]] = stow.matmul {{.*}} : (tensor<8x3xf16>, tensor<8x4xf16>) -> tensor<3x4xf32>
// CHECK-NEXT: stow.reduce_scatter %[[DV]] {{.*}} : (tensor<3x4xf32>) -> tensor<6xf32>
module attributes {stow.form = "step", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %d: tensor<8x3xf32> {stow.name = "d", stow.kind = #stow.kind<input>},
                   %w: tensor<3x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %m: tensor<6xf32> {stow.name = "m", stow.kind = #stow.kind<optimizer>, stow.shard_of = tensor<3x4xf32>})
      -> (tensor<3x4xf32> {stow.state = "w"}, tensor<6xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
    %dw = stow.matmul %d, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %s = stow.all_reduce %dw {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %w1 = stow.sub %w, %s {stow.phase = #stow.phase<update>} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %dv = stow.matmul %d, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %p = stow.reduce_scatter %dv {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<3x4xf32>) -> tensor<6xf32>
    %m1 = stow.add %m, %p {stow.phase = #stow.phase<update>} : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    return %w1, %m1 : tensor<3x4xf32>, tensor<6xf32>
  }
}
