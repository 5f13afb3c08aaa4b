// RUN: stowage compile %s --loss=mse --target=cuda:h100 --precision=bf16 --stop-after=ordered | FileCheck %s

// Tests that products which add one bias, as the steps of a recurrence do, read one cast of it.
// CHECK-LABEL: @train
// CHECK: %[[B:.*]] = stow.map %{{.*}} {stow.epilogue{{.*}}} : (tensor<32xf32>) -> tensor<32xbf16>
// CHECK-NOT: (tensor<32xf32>) -> tensor<32xbf16>
// CHECK: %[[H:.*]] = stow.product_map %{{[^,]*}}, %{{[^,]*}}, %[[B]] {{.*}}cublaslt with bias within
// CHECK-NOT: (tensor<32xf32>) -> tensor<32xbf16>
// CHECK: stow.product_map %[[H]], %{{[^,]*}}, %[[B]] {{.*}}cublaslt with bias within
// CHECK-LABEL: @eval
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<64x32xf32> {stow.kind = #stow.kind<input>, stow.name = "x"},
      %w: tensor<32x32xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %b: tensor<32xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b", stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<64x32xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<model>} {
    %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %h = stow.add %p, %b : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
    %q = stow.matmul %h, %w {transpose_a = false, transpose_b = false} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %y = stow.add %q, %b : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
    %z = stow.matmul %y, %w {transpose_a = false, transpose_b = false} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    return %z : tensor<64x32xf32>
  }
}
