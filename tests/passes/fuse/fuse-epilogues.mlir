// RUN: stowage compile %s --loss=mse --target=cuda:h100 --stop-after=ordered | FileCheck %s
// RUN: stowage compile %s --loss=mse --target=cuda:h100 --precision=bf16 --stop-after=ordered | FileCheck %s --check-prefix=BF16
// RUN: stowage compile %s --loss=mse --stop-after=ordered | FileCheck %s --check-prefix=HOST

// Tests a block of a transformer on a GPU, whose library runs sums and functions on products: x + W2 gelu(W1 x + b1) + b2
// of 4x8 rows, and a product behind it. In training GELU's input is kept and so stays a result of its own; its gradient reads it where it lies. In evaluation nobody keeps it. In f32 the product takes the sum with x as well.
// In bf16 the bias is cast to what the result has, and the sum with x, which is in f32, is larger than the product and
// stays a kernel. The host has none of this.
// CHECK-LABEL: @train
// CHECK: %[[X:.*]] = stow.reshape %{{.*}} : (tensor<4x8x16xf32>) -> tensor<32x16xf32>
// CHECK: %[[H:.*]] = stow.product_map %[[X]], %[[W1:[a-z0-9]+]], %[[B1:[a-z0-9]+]] {
// CHECK-SAME: cublaslt with bias within
// CHECK: ^bb0(%[[P:[a-z0-9]+]]: f32{{.*}}, %[[B:[a-z0-9]+]]: f32
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[P]], %[[B]]
// CHECK-NEXT: stow.yield %[[S]]
// CHECK: stow.reshape %[[H]] : (tensor<32x32xf32>) -> tensor<4x8x32xf32>
// CHECK: stow.map
// CHECK: math.tanh
// CHECK: stow.product_map {{.*}}cublaslt with bias, sum within
// CHECK: stow.product_map {{.*}}{stow.epilogue, {{.*}}cublaslt with gelu gradient within{{.*}}stow.phase = #stow.phase<backward>
// CHECK: math.tanh
// CHECK-LABEL: @eval
// CHECK: stow.product_map {{.*}}cublaslt with bias, gelu within
// CHECK: math.tanh
// CHECK: stow.product_map {{.*}}cublaslt with bias, sum within
// CHECK-NOT: stow.map
// CHECK: return

// BF16-LABEL: @train
// BF16: %[[B16:.*]] = stow.map %{{.*}} {stow.epilogue{{.*}}} : (tensor<32xf32>) -> tensor<32xbf16>
// BF16-NEXT: ^bb0(%[[WIDE:[a-z0-9]+]]: f32
// BF16-NEXT: arith.truncf %[[WIDE]] : f32 to bf16
// BF16: stow.product_map %{{[^,]*}}, %{{[^,]*}}, %[[B16]] {{.*}}cublaslt with bias within
// BF16-NEXT: ^bb0(%[[P:[a-z0-9]+]]: f32{{.*}}, %[[B:[a-z0-9]+]]: bf16
// BF16-NEXT: %[[C:.*]] = arith.extf %[[B]]
// BF16-NEXT: %[[S:.*]] = arith.addf %[[P]], %[[C]] : f32
// BF16-NEXT: %[[N:.*]] = arith.truncf %[[S]] : f32 to bf16
// BF16-NEXT: stow.yield %[[N]] : bf16
// BF16: stow.matmul
// BF16: stow.product_map {{.*}}cublaslt with gelu gradient within

// HOST-NOT: stow.product_map
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<4x8x16xf32> {stow.kind = #stow.kind<input>, stow.name = "x"},
      %w1: tensor<16x32xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w1", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %b1: tensor<32xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b1", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %w2: tensor<32x16xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w2", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %b2: tensor<16xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b2", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %w3: tensor<16x16xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w3", stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<4x8x16xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<model>} {
    %cube = stow.constant dense<4.471500e-02> : tensor<f32>
    %slope = stow.constant dense<0.797884583> : tensor<f32>
    %one = stow.constant dense<1.0> : tensor<f32>
    %half = stow.constant dense<0.5> : tensor<f32>
    %p = stow.matmul %x, %w1 {transpose_a = false, transpose_b = false} : (tensor<4x8x16xf32>, tensor<16x32xf32>) -> tensor<4x8x32xf32>
    %s = stow.add %p, %b1 : (tensor<4x8x32xf32>, tensor<32xf32>) -> tensor<4x8x32xf32>
    %s2 = stow.mul %s, %s : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %s3 = stow.mul %s2, %s : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %k = stow.mul %s3, %cube : (tensor<4x8x32xf32>, tensor<f32>) -> tensor<4x8x32xf32>
    %v = stow.add %s, %k : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %u = stow.mul %v, %slope : (tensor<4x8x32xf32>, tensor<f32>) -> tensor<4x8x32xf32>
    %t = stow.tanh %u : (tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %w = stow.add %t, %one : (tensor<4x8x32xf32>, tensor<f32>) -> tensor<4x8x32xf32>
    %h = stow.mul %s, %half : (tensor<4x8x32xf32>, tensor<f32>) -> tensor<4x8x32xf32>
    %g = stow.mul %h, %w : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %q = stow.matmul %g, %w2 {transpose_a = false, transpose_b = false} : (tensor<4x8x32xf32>, tensor<32x16xf32>) -> tensor<4x8x16xf32>
    %r = stow.add %q, %b2 : (tensor<4x8x16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
    %y = stow.add %x, %r : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %z = stow.matmul %y, %w3 {transpose_a = false, transpose_b = false} : (tensor<4x8x16xf32>, tensor<16x16xf32>) -> tensor<4x8x16xf32>
    return %z : tensor<4x8x16xf32>
  }
}
