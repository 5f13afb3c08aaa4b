// RUN: stowage-opt %s --stow-assign-layouts --split-input-file | FileCheck %s

// Tests that convolutions want channels last. The weight's layout is the library's and depends on
// the processor, so that it is only captured: the forward and the weight's gradient, and therefore the update, agree about it.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8x8x8xf32, #stow.layout<"0,2,3,1">> {stow.kind = #stow.kind<input>
// CHECK-SAME: %[[W:[a-z0-9]+]]: [[WT:tensor<16x8x3x3xf32.*]] {stow.kind = #stow.kind<parameter>, stow.name = "w"}
// CHECK-SAME: -> (tensor<2x16x8x8xf32, #stow.layout<"0,2,3,1">>, [[WT]] {stow.state = "w"})
// CHECK: %[[Y:.*]] = stow.conv2d %[[X]], %[[W]] {{.*}} : (tensor<2x8x8x8xf32, #stow.layout<"0,2,3,1">>, [[WT]]) -> tensor<2x16x8x8xf32, #stow.layout<"0,2,3,1">>
// CHECK: %[[DW:.*]] = stow.conv2d_grad_weight %[[X]], %[[Y]] {{.*}} -> [[WT]]
// CHECK-NEXT: stow.sgd %[[W]], %[[DW]], {{.*}} : ([[WT]], [[WT]], tensor<f32>) -> [[WT]]
func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<16x8x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
    %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>}) -> (tensor<2x16x8x8xf32>, tensor<16x8x3x3xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
  %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<16x8x3x3xf32>) -> tensor<2x16x8x8xf32>
  %dw = stow.conv2d_grad_weight %x, %y {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>}
      : (tensor<2x8x8x8xf32>, tensor<2x16x8x8xf32>) -> tensor<16x8x3x3xf32>
  %w1 = stow.sgd %w, %dw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<16x8x3x3xf32>, tensor<16x8x3x3xf32>, tensor<f32>) -> tensor<16x8x3x3xf32>
  return %y, %w1 : tensor<2x16x8x8xf32>, tensor<16x8x3x3xf32>
}

// -----

// Tests that state has one layout in all graphs: @eval takes over what @train decided.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %{{[a-z0-9]+}}: [[WT:tensor<16x8x3x3xf32.*]] {stow.kind = #stow.kind<parameter>, stow.name = "w"})
// CHECK-LABEL: func.func @eval
// CHECK-SAME: %{{[a-z0-9]+}}: [[WT]] {stow.kind = #stow.kind<parameter>, stow.name = "w"}
// CHECK-NOT: stow.reorder
// CHECK: stow.conv2d {{.*}}[[WT]]
module {
  func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<16x8x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) attributes {stow.role = #stow.role<train>} {
    %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x8x8x8xf32>, tensor<16x8x3x3xf32>) -> tensor<2x16x8x8xf32>
    return
  }
  func.func @eval(%w: tensor<16x8x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<2x16x8x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x8x8x8xf32>, tensor<16x8x3x3xf32>) -> tensor<2x16x8x8xf32>
    return %y : tensor<2x16x8x8xf32>
  }
}

// -----

// Tests grouped and depthwise convolutions: the layout of a grouped weight splits the output channels
// into the groups first ("g2 ..."), whatever follows, or is plain; a depthwise one has its channels
// innermost, and the op a generated kernel.
// CHECK-LABEL: func.func @train
// CHECK-SAME: tensor<16x4x3x3xf32{{(, #stow.layout<"g2 .*">)?}}> {stow.kind = #stow.kind<parameter>, stow.name = "grouped"}
// CHECK-SAME: tensor<8x1x3x3xf32, #stow.layout<"2,3,0,1">> {stow.kind = #stow.kind<parameter>, stow.name = "depthwise"}
// CHECK: stow.conv2d {{.*}}groups = 2
// CHECK: stow.conv2d {{.*}}groups = 8
func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<16x4x3x3xf32> {stow.name = "grouped", stow.kind = #stow.kind<parameter>},
    %d: tensor<8x1x3x3xf32> {stow.name = "depthwise", stow.kind = #stow.kind<parameter>}) attributes {stow.role = #stow.role<train>} {
  %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 2 : i64}
      : (tensor<2x8x8x8xf32>, tensor<16x4x3x3xf32>) -> tensor<2x16x8x8xf32>
  %z = stow.conv2d %x, %d {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 8 : i64}
      : (tensor<2x8x8x8xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x8x8xf32>
  return
}

// -----

// Tests reshapes: rows of 8*4*4 elements are row-major, so that the channels-last operand is copied
// first (a reorder, planned like any op) and the reshape is a view of the copy. Where the image is one
// pixel, channels last is row-major order already: a view, no copy.
// CHECK-LABEL: func.func @eval
// CHECK: %[[A:.*]] = stow.avg_pool
// CHECK: %[[P:.*]] = stow.reorder %[[A]] : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT: stow.reshape %[[P]] : (tensor<2x8x4x4xf32>) -> tensor<2x128xf32>
// CHECK-NOT: stow.reorder
// CHECK: stow.reshape %{{.*}} : (tensor<2x8x1x1xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8xf32>
func.func @eval(%x: tensor<2x8x4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<128x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
    -> (tensor<2x4xf32> {stow.name = "y"}, tensor<2x8xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<eval>} {
  %a = stow.avg_pool %x {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false}
      : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %f = stow.reshape %a : (tensor<2x8x4x4xf32>) -> tensor<2x128xf32>
  %y = stow.matmul %f, %w {transpose_a = false, transpose_b = false} : (tensor<2x128xf32>, tensor<128x4xf32>) -> tensor<2x4xf32>
  %p = stow.avg_pool %a {kernel = array<i64: 4, 4>, strides = array<i64: 4, 4>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false}
      : (tensor<2x8x4x4xf32>) -> tensor<2x8x1x1xf32>
  %q = stow.reshape %p : (tensor<2x8x1x1xf32>) -> tensor<2x8xf32>
  return %y, %q : tensor<2x4xf32>, tensor<2x8xf32>
}

// -----

// Tests that a reshape back to an image is row-major and a reorder brings it to its reader.
// CHECK-LABEL: func.func @eval
// CHECK: %[[V:.*]] = stow.reshape %{{.*}} : (tensor<2x128xf32>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT: %[[N:.*]] = stow.reorder %[[V]] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK-NEXT: stow.avg_pool %[[N]]
func.func @eval(%x: tensor<2x128xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<2x8x2x2xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
  %v = stow.reshape %x : (tensor<2x128xf32>) -> tensor<2x8x4x4xf32>
  %y = stow.avg_pool %v {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false}
      : (tensor<2x8x4x4xf32>) -> tensor<2x8x2x2xf32>
  return %y : tensor<2x8x2x2xf32>
}

// -----

// Tests that concat and slice have one order for all they join and cut, here that of the pooling
// before them, and that a transpose is a view of it: NCHW stored channels last is NHWC row by row.
// Matrices are transposed for a product without a copy, too.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.reorder
// CHECK: stow.concat {{.*}} -> tensor<2x16x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.slice {{.*}} -> tensor<2x4x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.transpose {{.*}} : (tensor<2x4x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x4x4x4xf32>
// CHECK: stow.transpose {{.*}} : (tensor<4x2xf32>) -> tensor<2x4xf32, #stow.layout<"1,0">>
// CHECK: stow.matmul {{.*}} : (tensor<2x4x4x4xf32>, tensor<4x2xf32>) -> tensor<2x4x4x2xf32>
// CHECK: stow.matmul {{.*}} : (tensor<2x4xf32, #stow.layout<"1,0">>, tensor<4x2xf32>) -> tensor<2x2xf32>
func.func @eval(%x: tensor<2x8x4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %m: tensor<4x2xf32> {stow.name = "m", stow.kind = #stow.kind<input>})
    -> (tensor<2x4x4x2xf32> {stow.name = "y"}, tensor<2x2xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<eval>} {
  %a = stow.avg_pool %x {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false}
      : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %c = stow.concat %a, %x {axis = 1 : i64} : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x16x4x4xf32>
  %s = stow.slice %c {starts = array<i64: 0, 4, 0, 0>, sizes = array<i64: 2, 4, 4, 4>} : (tensor<2x16x4x4xf32>) -> tensor<2x4x4x4xf32>
  %t = stow.transpose %s {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %u = stow.transpose %m {permutation = array<i64: 1, 0>} : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %y = stow.matmul %t, %m {transpose_a = false, transpose_b = false} : (tensor<2x4x4x4xf32>, tensor<4x2xf32>) -> tensor<2x4x4x2xf32>
  %z = stow.matmul %u, %m {transpose_a = false, transpose_b = false} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  return %y, %z : tensor<2x4x4x2xf32>, tensor<2x2xf32>
}

// -----

// Tests a block of ConvNeXt: the convolution is channels last, the matrix product behind the
// transpose row-major, and both transposes are views of the same bytes; no code copies anything.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.reorder
// CHECK: stow.conv2d {{.*}} -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.transpose {{.*}} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x4x4x8xf32>
// CHECK: stow.matmul {{.*}} -> tensor<2x4x4x8xf32>
// CHECK: stow.transpose {{.*}} : (tensor<2x4x4x8xf32>) -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.mul {{.*}} -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
func.func @eval(%x: tensor<2x8x4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %k: tensor<8x8x1x1xf32> {stow.name = "k", stow.kind = #stow.kind<parameter>},
    %w: tensor<8x8xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %g: tensor<8x1x1xf32> {stow.name = "g", stow.kind = #stow.kind<parameter>})
    -> (tensor<2x8x4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
  %c = stow.conv2d %x, %k {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x4x4xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x4x4xf32>
  %t = stow.transpose %c {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x8x4x4xf32>) -> tensor<2x4x4x8xf32>
  %m = stow.matmul %t, %w {transpose_a = false, transpose_b = false} : (tensor<2x4x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x4x8xf32>
  %u = stow.transpose %m {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x4x4x8xf32>) -> tensor<2x8x4x4xf32>
  %s = stow.mul %u, %g : (tensor<2x8x4x4xf32>, tensor<8x1x1xf32>) -> tensor<2x8x4x4xf32>
  %y = stow.add %s, %x : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  return %y : tensor<2x8x4x4xf32>
}

// -----

// Tests that patches become tokens without a copy: channels last, the reshape joins rows and columns
// and the transpose of the sequence is row-major.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.reorder
// CHECK: stow.reshape {{.*}} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x16xf32, #stow.layout<"0,2,1">>
// CHECK: stow.transpose {{.*}} : (tensor<2x8x16xf32, #stow.layout<"0,2,1">>) -> tensor<2x16x8xf32>
func.func @eval(%x: tensor<2x8x4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<8x8xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
    -> (tensor<2x16x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
  %c = stow.max_pool %x {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %r = stow.reshape %c : (tensor<2x8x4x4xf32>) -> tensor<2x8x16xf32>
  %t = stow.transpose %r {permutation = array<i64: 0, 2, 1>} : (tensor<2x8x16xf32>) -> tensor<2x16x8xf32>
  %y = stow.matmul %t, %w {transpose_a = false, transpose_b = false} : (tensor<2x16x8xf32>, tensor<8x8xf32>) -> tensor<2x16x8xf32>
  return %y : tensor<2x16x8xf32>
}

// -----

// Tests a weight shared by two convolutions: the first decides, the second reads it as it is or
// through a reorder, but the argument has one layout, and the sum of both gradients has it too.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[W:[a-z0-9]+]]: [[WT:tensor<8x8x3x3xf32.*]] {stow.kind = #stow.kind<parameter>, stow.name = "w"}
// CHECK: stow.conv2d %{{[a-z0-9]+}}, %[[W]] {{.*}}[[WT]]
// CHECK: %[[SUM:.*]] = stow.add {{.*}} -> [[GT:tensor<8x8x3x3xf32.*]]
// CHECK: stow.sgd %[[W]], {{.*}} : ([[WT]], [[WT]], tensor<f32>) -> [[WT]]
func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<8x8x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
    %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>}) -> (tensor<8x8x3x3xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
  %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x8x8xf32>
  %z = stow.conv2d %y, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x4x4xf32>
  %dw2 = stow.conv2d_grad_weight %y, %z {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>}
      : (tensor<2x8x8x8xf32>, tensor<2x8x4x4xf32>) -> tensor<8x8x3x3xf32>
  %dy = stow.conv2d_grad_input %z, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>}
      : (tensor<2x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x8x8xf32>
  %dw1 = stow.conv2d_grad_weight %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>}
      : (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>) -> tensor<8x8x3x3xf32>
  %dw = stow.add %dw1, %dw2 {stow.phase = #stow.phase<backward>} : (tensor<8x8x3x3xf32>, tensor<8x8x3x3xf32>) -> tensor<8x8x3x3xf32>
  %w1 = stow.sgd %w, %dw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<8x8x3x3xf32>, tensor<8x8x3x3xf32>, tensor<f32>) -> tensor<8x8x3x3xf32>
  return %w1 : tensor<8x8x3x3xf32>
}

// -----

// Tests that a weight whose convolutions read a cast of it lies as its gradient is written, and the
// cast as the weight: no reorder in front of the update.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<16x16x3x3xf32, #stow.layout<"[[LAYOUT:[^"]*]]">> {stow.kind = #stow.kind<parameter>, stow.name = "w"}
// CHECK: stow.cast %[[W]] : (tensor<16x16x3x3xf32, #stow.layout<"[[LAYOUT]]">>) -> tensor<16x16x3x3xbf16, #stow.layout<"[[LAYOUT]]">>
// CHECK: %[[G:.*]] = stow.conv2d_grad_weight {{.*}} -> tensor<16x16x3x3xf32, #stow.layout<"[[LAYOUT]]">>
// CHECK-NEXT: stow.sgd %[[W]], %[[G]]
func.func @train(%x: tensor<2x16x8x8xbf16> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<16x16x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
    %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>}) -> (tensor<16x16x3x3xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
  %c = stow.cast %w : (tensor<16x16x3x3xf32>) -> tensor<16x16x3x3xbf16>
  %y = stow.conv2d %x, %c {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x16x8x8xbf16>, tensor<16x16x3x3xbf16>) -> tensor<2x16x8x8xbf16>
  %dw = stow.conv2d_grad_weight %x, %y {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>}
      : (tensor<2x16x8x8xbf16>, tensor<2x16x8x8xbf16>) -> tensor<16x16x3x3xf32>
  %w1 = stow.sgd %w, %dw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<16x16x3x3xf32>, tensor<16x16x3x3xf32>, tensor<f32>) -> tensor<16x16x3x3xf32>
  return %w1 : tensor<16x16x3x3xf32>
}

// -----

// Tests that a frozen weight, which no update touches, takes what the forward likes best, and that
// the backward reads it as it is or through a reorder of the backward's own.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[W:[a-z0-9]+]]: [[WT:tensor<8x8x3x3xf32.*]] {stow.kind = #stow.kind<parameter>, stow.name = "w"}
// CHECK: stow.conv2d %{{[a-z0-9]+}}, %[[W]] {{.*}}[[WT]]
// CHECK: stow.conv2d_grad_input %{{.*}}stow.phase = #stow.phase<backward>
// CHECK-NOT: stow.sgd
func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<8x8x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<2x8x8x8xf32>) attributes {stow.role = #stow.role<train>} {
  %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x8x8xf32>
  %dx = stow.conv2d_grad_input %y, %w {stow.phase = #stow.phase<backward>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x8x8xf32>
  return %dx : tensor<2x8x8x8xf32>
}

// -----

// Tests batch normalization of matrices: row-major throughout, no reorder.
// CHECK-LABEL: func.func @train
// CHECK-NOT: #stow.layout
// CHECK-NOT: stow.reorder
// CHECK: stow.batch_norm_training {{.*}} -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK: stow.batch_norm_grad
func.func @train(%x: tensor<4x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %s: tensor<8xf32> {stow.name = "s", stow.kind = #stow.kind<parameter>},
    %b: tensor<8xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>}) -> (tensor<4x8xf32>) attributes {stow.role = #stow.role<train>} {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %y {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>}
      : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %dx : tensor<4x8xf32>
}

// -----

// Tests elementwise ops: all operands of the result's shape lie as it does, here as the pooling
// that reads the sum wants them; repeated operands lie as they did; constants have no layout.
// CHECK-LABEL: func.func @eval
// CHECK: %[[V:.*]] = stow.reshape %{{.*}} -> tensor<2x8x4x4xf32>
// CHECK-NEXT: %[[R:.*]] = stow.reorder %[[V]]
// CHECK-NEXT: %[[A:.*]] = stow.mul %[[R]], %{{.*}} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>, tensor<8x1x1xf32>) -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.add %{{.*}}, %{{.*}} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
func.func @eval(%m: tensor<2x128xf32> {stow.name = "m", stow.kind = #stow.kind<input>}, %s: tensor<8x1x1xf32> {stow.name = "s", stow.kind = #stow.kind<parameter>}) -> (tensor<2x8x4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
  %v = stow.reshape %m : (tensor<2x128xf32>) -> tensor<2x8x4x4xf32>
  %a = stow.mul %v, %s : (tensor<2x8x4x4xf32>, tensor<8x1x1xf32>) -> tensor<2x8x4x4xf32>
  %c = stow.constant dense<1.0> : tensor<2x8x4x4xf32>
  %d = stow.add %a, %c : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %y = stow.avg_pool %d {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false}
      : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  return %y : tensor<2x8x4x4xf32>
}

// -----

// Tests that state no op reads is row-major, and that a new value is brought to where the state is
// described to lie.
// CHECK-LABEL: func.func @train
// CHECK-SAME: tensor<2x8x4x4xf32> {stow.kind = #stow.kind<statistic>, stow.name = "m"}
// CHECK: %[[V:.*]] = stow.max_pool {{.*}} -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK-NEXT: %[[N:.*]] = stow.reorder %[[V]] : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT: return %[[N]]
func.func @train(%x: tensor<2x8x4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %m: tensor<2x8x4x4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>}) -> (tensor<2x8x4x4xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
  %v = stow.max_pool %x {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  return %v : tensor<2x8x4x4xf32>
}

// -----

// Tests an attention behind a convolution: its heads are no channels. Queries are read as the
// transpose sees them, results written as the next transpose wants them: nothing is copied.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.reorder
// CHECK: stow.transpose {{.*}} : (tensor<2x8x4x8xf32>) -> tensor<2x4x8x8xf32, #stow.layout<"0,2,1,3">>
// CHECK: stow.matmul {{.*}} : (tensor<2x4x8x8xf32, #stow.layout<"0,2,1,3">>, tensor<2x4x8x8xf32, #stow.layout<"0,2,1,3">>) -> tensor<2x4x8x8xf32>
// CHECK: stow.softmax {{.*}} -> tensor<2x4x8x8xf32>
// CHECK: stow.matmul {{.*}} -> tensor<2x4x8x8xf32, #stow.layout<"0,2,1,3">>
// CHECK: stow.transpose {{.*}} : (tensor<2x4x8x8xf32, #stow.layout<"0,2,1,3">>) -> tensor<2x8x4x8xf32>
func.func @eval(%x: tensor<2x32x2x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %k: tensor<32x32x1x1xf32> {stow.name = "k", stow.kind = #stow.kind<parameter>},
    %w: tensor<32x32xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<2x8x32xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
  %c = stow.conv2d %x, %k {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x32x2x4xf32>, tensor<32x32x1x1xf32>) -> tensor<2x32x2x4xf32>
  %r = stow.reshape %c : (tensor<2x32x2x4xf32>) -> tensor<2x32x8xf32>
  %s = stow.transpose %r {permutation = array<i64: 0, 2, 1>} : (tensor<2x32x8xf32>) -> tensor<2x8x32xf32>
  %h = stow.reshape %s : (tensor<2x8x32xf32>) -> tensor<2x8x4x8xf32>
  %q = stow.transpose %h {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x8xf32>) -> tensor<2x4x8x8xf32>
  %m = stow.matmul %q, %q {transpose_a = false, transpose_b = true} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %p = stow.softmax %m {axis = 3 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = stow.matmul %p, %q {transpose_a = false, transpose_b = false} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %t = stow.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x8x8xf32>) -> tensor<2x8x4x8xf32>
  %u = stow.reshape %t : (tensor<2x8x4x8xf32>) -> tensor<2x8x32xf32>
  %y = stow.matmul %u, %w {transpose_a = false, transpose_b = false} : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32>
  return %y : tensor<2x8x32xf32>
}

// -----

// Tests that rows read by index are row-major among images too: the pixels of an image of tokens are
// reordered for those who want channels last.
// CHECK-LABEL: func.func @eval
// CHECK: %[[E:.*]] = stow.embedding %{{.*}} : (tensor<9x8xf32>, tensor<2x4x4xi64>) -> tensor<2x4x4x8xf32>
// CHECK: stow.reorder %[[E]] : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32, #stow.layout<"0,2,3,1">>
func.func @eval(%i: tensor<2x4x4xi64> {stow.name = "i", stow.kind = #stow.kind<input>}, %t: tensor<9x8xf32> {stow.name = "t", stow.kind = #stow.kind<parameter>})
    -> (tensor<2x4x2x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
  %e = stow.embedding %t, %i : (tensor<9x8xf32>, tensor<2x4x4xi64>) -> tensor<2x4x4x8xf32>
  %y = stow.max_pool %e {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x4x8xf32>) -> tensor<2x4x2x4xf32>
  return %y : tensor<2x4x2x4xf32>
}

// -----

// Tests that weights are not padded, whatever the library likes: 18 groups of one channel, five by
// five, are 18 * 25 elements, and 21 output channels 21 * 8. Where its fast code wants them padded,
// a copy for the call is.
// CHECK-LABEL: func.func @train
// CHECK-SAME: [[DT:tensor<18x1x5x5xf32[^:]*]] {stow.kind = #stow.kind<parameter>, stow.name = "d"}
// CHECK-SAME: [[PT:tensor<21x18x1x1xf32>]] {stow.kind = #stow.kind<parameter>, stow.name = "p"}
// CHECK: stow.sgd {{.*}} : ([[DT]], [[DT]], tensor<f32>) -> [[DT]]
func.func @train(%x: tensor<2x18x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %d: tensor<18x1x5x5xf32> {stow.name = "d", stow.kind = #stow.kind<parameter>},
    %p: tensor<21x18x1x1xf32> {stow.name = "p", stow.kind = #stow.kind<parameter>}, %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>})
    -> (tensor<18x1x5x5xf32> {stow.state = "d"}, tensor<2x21x8x8xf32>) attributes {stow.role = #stow.role<train>} {
  %y = stow.conv2d %x, %d {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>, groups = 18 : i64}
      : (tensor<2x18x8x8xf32>, tensor<18x1x5x5xf32>) -> tensor<2x18x8x8xf32>
  %z = stow.conv2d %y, %p {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x18x8x8xf32>, tensor<21x18x1x1xf32>) -> tensor<2x21x8x8xf32>
  %dd = stow.conv2d_grad_weight %x, %y {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>, groups = 18 : i64, stow.phase = #stow.phase<backward>}
      : (tensor<2x18x8x8xf32>, tensor<2x18x8x8xf32>) -> tensor<18x1x5x5xf32>
  %d1 = stow.sgd %d, %dd, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
      : (tensor<18x1x5x5xf32>, tensor<18x1x5x5xf32>, tensor<f32>) -> tensor<18x1x5x5xf32>
  return %d1, %z : tensor<18x1x5x5xf32>, tensor<2x21x8x8xf32>
}

// -----

// Tests a convolution stem, an attention and a convolution head: both convolutions are channels last, what
// is between them is row-major in tokens, and no tensor is copied from the one into the other.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.reorder
// CHECK: stow.conv2d {{.*}} -> tensor<2x32x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.transpose {{.*}} : (tensor<2x32x16xf32, #stow.layout<"0,2,1">>) -> tensor<2x16x32xf32>
// CHECK: stow.matmul {{.*}} -> tensor<2x4x16x16xf32>
// CHECK: stow.softmax {{.*}} -> tensor<2x4x16x16xf32>
// CHECK: stow.matmul {{.*}} : (tensor<2x16x32xf32>, tensor<32x32xf32>) -> tensor<2x16x32xf32>
// CHECK: stow.add {{.*}} -> tensor<2x16x32xf32>
// CHECK: stow.transpose {{.*}} : (tensor<2x16x32xf32>) -> tensor<2x32x16xf32, #stow.layout<"0,2,1">>
// CHECK: stow.conv2d {{.*}} : (tensor<2x32x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK-NOT: stow.reorder
func.func @eval(%x: tensor<2x3x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %stem: tensor<32x3x2x2xf32> {stow.name = "stem", stow.kind = #stow.kind<parameter>},
    %q: tensor<32x32xf32> {stow.name = "q", stow.kind = #stow.kind<parameter>}, %k: tensor<32x32xf32> {stow.name = "k", stow.kind = #stow.kind<parameter>},
    %v: tensor<32x32xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>}, %o: tensor<32x32xf32> {stow.name = "o", stow.kind = #stow.kind<parameter>},
    %head: tensor<16x32x3x3xf32> {stow.name = "head", stow.kind = #stow.kind<parameter>}) -> tensor<2x16x4x4xf32> attributes {stow.role = #stow.role<eval>} {
  %image = stow.conv2d %x, %stem {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x3x8x8xf32>, tensor<32x3x2x2xf32>) -> tensor<2x32x4x4xf32>
  %flat = stow.reshape %image : (tensor<2x32x4x4xf32>) -> tensor<2x32x16xf32>
  %t = stow.transpose %flat {permutation = array<i64: 0, 2, 1>} : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
  %qt = stow.matmul %t, %q {transpose_a = false, transpose_b = false} : (tensor<2x16x32xf32>, tensor<32x32xf32>) -> tensor<2x16x32xf32>
  %kt = stow.matmul %t, %k {transpose_a = false, transpose_b = false} : (tensor<2x16x32xf32>, tensor<32x32xf32>) -> tensor<2x16x32xf32>
  %vt = stow.matmul %t, %v {transpose_a = false, transpose_b = false} : (tensor<2x16x32xf32>, tensor<32x32xf32>) -> tensor<2x16x32xf32>
  %qs = stow.reshape %qt : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  %ks = stow.reshape %kt : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  %vs = stow.reshape %vt : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  %qh = stow.transpose %qs {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %kh = stow.transpose %ks {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %vh = stow.transpose %vs {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %scores = stow.matmul %qh, %kh {transpose_a = false, transpose_b = true} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %p = stow.softmax %scores {axis = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %mixed = stow.matmul %p, %vh {transpose_a = false, transpose_b = false} : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %back = stow.transpose %mixed {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  %joined = stow.reshape %back : (tensor<2x16x4x8xf32>) -> tensor<2x16x32xf32>
  %y = stow.matmul %joined, %o {transpose_a = false, transpose_b = false} : (tensor<2x16x32xf32>, tensor<32x32xf32>) -> tensor<2x16x32xf32>
  %sum = stow.add %y, %t : (tensor<2x16x32xf32>, tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %ft = stow.transpose %sum {permutation = array<i64: 0, 2, 1>} : (tensor<2x16x32xf32>) -> tensor<2x32x16xf32>
  %grid = stow.reshape %ft : (tensor<2x32x16xf32>) -> tensor<2x32x4x4xf32>
  %z = stow.conv2d %grid, %head {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x32x4x4xf32>, tensor<16x32x3x3xf32>) -> tensor<2x16x4x4xf32>
  return %z : tensor<2x16x4x4xf32>
}
