// RUN: stowage compile %s --loss=mse --target=cuda:h100 --stop-after=step | FileCheck %s
// RUN: stowage compile %s --loss=mse --target=cuda:h100 --precision=bf16 --stop-after=step | FileCheck %s --check-prefix=BF16
// RUN: stowage compile %s --loss=mse --stop-after=step | FileCheck %s --check-prefix=HOST

// Tests that a GPU's convolution has no bias and that the sum stands behind it, in both graphs; the bias's gradient
// stays the sum of dy. In 16 bits the sum is stored as narrow as what it is added to, and reads the bias in f32.
// The host's library adds a bias itself.
// CHECK-LABEL: @train
// CHECK: %[[C:.*]] = stow.conv2d %{{[^,]*}}, %{{[^,]*}} {
// CHECK-SAME: (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
// CHECK-NEXT: %[[B:.*]] = stow.reshape %{{.*}} : (tensor<4xf32>) -> tensor<4x1x1xf32>
// CHECK-NEXT: %[[S:.*]] = stow.add %[[C]], %[[B]]
// CHECK-NEXT: stow.relu %[[S]]
// CHECK: stow.reduce_sum %{{.*}} {axes = array<i64: 0, 2, 3>
// CHECK-LABEL: @eval
// CHECK: stow.conv2d %{{[^,]*}}, %{{[^,]*}} {
// CHECK-NEXT: stow.reshape
// CHECK-NEXT: stow.add
// BF16-LABEL: @train
// BF16: stow.conv2d {{.*}} -> tensor<2x4x8x8xbf16>
// BF16: stow.add {{.*}} : (tensor<2x4x8x8xbf16>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xbf16>
// HOST-COUNT-2: stow.conv2d %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<2x3x8x8xf32> {stow.kind = #stow.kind<input>, stow.name = "x"},
                   %w: tensor<4x3x3x3xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w", stow.init = #stow.init<"normal", 0.0, 0.1>},
                   %b: tensor<4xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b", stow.init = #stow.init<"normal", 0.0, 0.1>},
                   %v: tensor<4x4x1x1xf32> {stow.kind = #stow.kind<parameter>, stow.name = "v", stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<2x4x8x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %c = stow.conv2d %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
    %r = stow.relu %c : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %y = stow.conv2d %r, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x8x8xf32>
    return %y : tensor<2x4x8x8xf32>
  }
}
