// RUN: stowage compile %s --loss=mse --target=cuda:h100 --cudnn=%simulated --stop-after=ordered | FileCheck %s
// RUN: stowage compile %s --loss=mse --target=cuda:h100 --cudnn=%simulated --precision=bf16 --stop-after=ordered | FileCheck %s --check-prefix=BF16
// RUN: stowage compile %s --loss=mse --stop-after=ordered | FileCheck %s --check-prefix=HOST

// Tests convolutions on a GPU, whose library adds biases and other tensors to them and takes maxima with 0: a bias and relu; a bias, a
// sum and relu; a bias alone, where no loss reads it in the same kernel: in evaluation. In 16 bits the bias is cast to what the result has. Kernels stay
// behind a convolution without a bias, for which cuDNN has no engine, and behind one whose result is made as a part of a concat, which
// no library does. The host has none of this.
// CHECK-LABEL: @train
// CHECK: %[[B:.*]] = stow.reshape %{{.*}} : (tensor<4xf32>) -> tensor<4x1x1xf32>
// CHECK-NEXT: %[[R:.*]] = stow.conv2d_map %{{[^,]*}}, %{{[^,]*}}, %[[B]] {dilations = {{.*}}stow.epilogue, {{.*}}) with bias, relu"
// CHECK-NEXT: ^bb0(%[[P:[a-z0-9]+]]: f32{{.*}}, %[[Q:[a-z0-9]+]]: f32
// CHECK-DAG: %[[S:.*]] = arith.addf %[[P]], %[[Q]]
// CHECK-DAG: %[[Z:.*]] = arith.constant 0.0
// CHECK: arith.maximumf %[[S]], %[[Z]]
// CHECK: stow.conv2d_map {{.*}} with bias, sum, relu"
// CHECK: %[[T:.*]] = stow.conv2d %
// CHECK: stow.map %[[T]]
// CHECK: %[[U:.*]] = stow.conv2d %
// CHECK: %[[V:.*]] = stow.map %[[U]]
// CHECK: stow.concat %[[V]],
// CHECK-NOT: stow.conv2d_map
// CHECK-LABEL: @eval
// CHECK: stow.conv2d_map {{.*}} with bias, relu"
// CHECK: stow.conv2d_map {{.*}} with bias, sum, relu"
// CHECK: stow.conv2d_map {{.*}} with bias"

// BF16-LABEL: @train
// BF16: %[[WIDE:.*]] = stow.reshape %{{.*}} : (tensor<4xf32>) -> tensor<4x1x1xf32>
// BF16: %[[B:.*]] = stow.map %[[WIDE]] {stow.epilogue} : (tensor<4x1x1xf32>) -> tensor<4x1x1xbf16>
// BF16: stow.conv2d_map %{{[^,]*}}, %{{[^,]*}}, %[[B]] {{.*}} with bias, relu"{{.*}} -> tensor<2x4x8x8xbf16
// BF16-NEXT: ^bb0(%[[P:[a-z0-9]+]]: f32{{.*}}, %[[Q:[a-z0-9]+]]: bf16
// BF16: %[[C:.*]] = arith.extf %[[Q]]
// BF16: arith.addf %[[P]], %[[C]] : f32
// BF16: stow.yield %{{.*}} : bf16

// HOST-NOT: stow.conv2d_map
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<2x4x8x8xf32> {stow.kind = #stow.kind<input>, stow.name = "x"},
      %w1: tensor<4x4x3x3xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w1", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %b1: tensor<4xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b1", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %w2: tensor<4x4x3x3xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w2", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %b2: tensor<4xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b2", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %w3: tensor<4x4x3x3xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w3", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %w4: tensor<4x4x3x3xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w4", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %b4: tensor<4xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b4", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %w5: tensor<2x8x1x1xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w5", stow.init = #stow.init<"normal", 0.0, 0.1>},
      %b5: tensor<2xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b5", stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<2x2x8x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %c1 = stow.conv2d %x, %w1, %b1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
    %r1 = stow.relu %c1 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %c2 = stow.conv2d %r1, %w2, %b2 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
    %s2 = stow.add %c2, %r1 : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %r2 = stow.relu %s2 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %c3 = stow.conv2d %r2, %w3 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32>
    %r3 = stow.relu %c3 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %c4 = stow.conv2d %r3, %w4, %b4 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
    %r4 = stow.relu %c4 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %j = stow.concat %r4, %r3 {axis = 1 : i64} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x8x8x8xf32>
    %y = stow.conv2d %j, %w5, %b5 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x8x8x8xf32>, tensor<2x8x1x1xf32>, tensor<2xf32>) -> tensor<2x2x8x8xf32>
    return %y : tensor<2x2x8x8xf32>
  }
}
