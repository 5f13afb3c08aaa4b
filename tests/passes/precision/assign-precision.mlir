// RUN: stowage-opt --stow-assign-precision=precision=f16 --split-input-file %s | FileCheck %s
// RUN: stowage-opt --stow-assign-precision="precision=f16 keep=conv*" --split-input-file %s | FileCheck %s --check-prefix=KEEP

// A product reads f32 parameters as they are on the host, and an input that products alone read is
// stored in 16 bits. The weight's gradient is as wide as the update; the loss is in f32.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf16>
// CHECK-SAME: %[[W:.*]]: tensor<3x4xf32>
// CHECK: %[[Y:.*]] = stow.matmul %[[X]], %[[W]] {{.*}} -> tensor<8x3xf16>
// CHECK: %[[R:.*]] = stow.relu %[[Y]] : (tensor<8x3xf16>) -> tensor<8x3xf16>
// CHECK: stow.reduce_mean %[[R]] {{.*}} : (tensor<8x3xf16>) -> tensor<f32>
// CHECK: %[[D:.*]] = stow.relu_grad {{.*}} : (tensor<8x3xf32>, tensor<8x3xf16>) -> tensor<8x3xf16>
// CHECK: %[[DW:.*]] = stow.matmul %[[D]], %[[X]] {{.*}} : (tensor<8x3xf16>, tensor<8x4xf16>) -> tensor<3x4xf32>
// CHECK: stow.sgd %[[W]], %[[DW]]
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<3x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %dr: tensor<8x3xf32> {stow.name = "t", stow.kind = #stow.kind<target>},
                   %lr: tensor<f32> {stow.name = "learning_rate", stow.kind = #stow.kind<learning_rate>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<3x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<8x4xf32>, tensor<3x4xf32>) -> tensor<8x3xf32> loc("conv0")
    %r = stow.relu %y : (tensor<8x3xf32>) -> tensor<8x3xf32>
    %loss = stow.reduce_mean %r {axes = array<i64: 0, 1>, keepdims = false} : (tensor<8x3xf32>) -> tensor<f32>
    %d = stow.relu_grad %dr, %r {stow.phase = #stow.phase<backward>} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
    %dw = stow.matmul %d, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %w1 = stow.sgd %w, %dw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
    return %loss, %w1 : tensor<f32>, tensor<3x4xf32>
  }
}

// -----

// Statistics stay in f32, softmax reads 16 bits and writes f32 where no product reads it; outputs of
// the evaluation graph are f32; the kept convolution writes f32, and what follows it is f32 as well.
// CHECK-LABEL: @eval(
// CHECK-SAME: %[[X:.*]]: tensor<8x2x4x4xf16>
// CHECK: %[[C:.*]] = stow.conv2d %[[X]], {{.*}} -> tensor<8x3x4x4xf16>
// CHECK: %[[B:.*]] = stow.batch_norm %[[C]], {{.*}} -> tensor<8x3x4x4xf16>
// CHECK: %[[S:.*]] = stow.softmax %[[B]] {{.*}} (tensor<8x3x4x4xf16>) -> tensor<8x3x4x4xf32>
// CHECK: %[[T:.*]] = stow.reshape %[[B]] : (tensor<8x3x4x4xf16>) -> tensor<8x48xf16>
// CHECK: %[[O:.*]] = stow.cast %[[T]] : (tensor<8x48xf16>) -> tensor<8x48xf32>
// CHECK: return %[[S]], %[[O]]
// KEEP-LABEL: @eval(
// KEEP-SAME: tensor<8x2x4x4xf32>
// KEEP: stow.conv2d {{.*}} -> tensor<8x3x4x4xf32>
// KEEP: stow.batch_norm {{.*}} -> tensor<8x3x4x4xf32>
// KEEP-NOT: stow.cast
module attributes {stow.form = "step"} {
  func.func @eval(%x: tensor<8x2x4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                  %w: tensor<3x2x1x1xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                  %v: tensor<3xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>})
      -> (tensor<8x3x4x4xf32> {stow.name = "s"}, tensor<8x48xf32> {stow.name = "t"}) attributes {stow.role = #stow.role<eval>} {
    %c = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<8x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<8x3x4x4xf32> loc("conv1")
    %b = stow.batch_norm %c, %v, %v, %v, %v {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
      : (tensor<8x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<8x3x4x4xf32>
    %s = stow.softmax %b {axis = 1 : i64} : (tensor<8x3x4x4xf32>) -> tensor<8x3x4x4xf32>
    %t = stow.reshape %b : (tensor<8x3x4x4xf32>) -> tensor<8x48xf32>
    return %s, %t : tensor<8x3x4x4xf32>, tensor<8x48xf32>
  }
}
