// RUN: stowage-opt %s --stow-assign-layouts --split-input-file | FileCheck %s

// Tests the house rule: four-dimensional activations are channels last, all else row-major. The
// weight's layout is the library's and depends on the processor, so that it is only captured: the
// forward and the weight's gradient, and therefore the update, agree about it.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8x8x8xf32, #stow.layout<"0,2,3,1">> {stow.kind = "input"
// CHECK-SAME: %[[W:[a-z0-9]+]]: [[WT:tensor<16x8x3x3xf32.*]] {stow.kind = "parameter", stow.name = "w"}
// CHECK-SAME: -> (tensor<2x16x8x8xf32, #stow.layout<"0,2,3,1">>, [[WT]] {stow.state = "w"})
// CHECK: %[[Y:.*]] = stow.conv2d %[[X]], %[[W]] {{.*}} : (tensor<2x8x8x8xf32, #stow.layout<"0,2,3,1">>, [[WT]]) -> tensor<2x16x8x8xf32, #stow.layout<"0,2,3,1">>
// CHECK: %[[DW:.*]] = stow.conv2d_grad_weight %[[X]], %[[Y]] {{.*}} -> [[WT]]
// CHECK-NEXT: stow.sgd %[[W]], %[[DW]], {{.*}} : ([[WT]], [[WT]], tensor<f32>) -> [[WT]]
func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = "input"}, %w: tensor<16x8x3x3xf32> {stow.name = "w", stow.kind = "parameter"},
    %lr: tensor<f32> {stow.name = "lr", stow.kind = "learning_rate"}) -> (tensor<2x16x8x8xf32>, tensor<16x8x3x3xf32> {stow.state = "w"}) {
  %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<16x8x3x3xf32>) -> tensor<2x16x8x8xf32>
  %dw = stow.conv2d_grad_weight %x, %y {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = "backward"}
      : (tensor<2x8x8x8xf32>, tensor<2x16x8x8xf32>) -> tensor<16x8x3x3xf32>
  %w1 = stow.sgd %w, %dw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = "update"}
      : (tensor<16x8x3x3xf32>, tensor<16x8x3x3xf32>, tensor<f32>) -> tensor<16x8x3x3xf32>
  return %y, %w1 : tensor<2x16x8x8xf32>, tensor<16x8x3x3xf32>
}

// -----

// Tests that state has one layout in all graphs: @eval takes over what @train decided.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %{{[a-z0-9]+}}: [[WT:tensor<16x8x3x3xf32.*]] {stow.kind = "parameter", stow.name = "w"})
// CHECK-LABEL: func.func @eval
// CHECK-SAME: %{{[a-z0-9]+}}: [[WT]] {stow.kind = "parameter", stow.name = "w"}
// CHECK-NOT: stow.reorder
// CHECK: stow.conv2d {{.*}}[[WT]]
module {
  func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = "input"}, %w: tensor<16x8x3x3xf32> {stow.name = "w", stow.kind = "parameter"}) {
    %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x8x8x8xf32>, tensor<16x8x3x3xf32>) -> tensor<2x16x8x8xf32>
    return
  }
  func.func @eval(%w: tensor<16x8x3x3xf32> {stow.name = "w", stow.kind = "parameter"}, %x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = "input"}) -> (tensor<2x16x8x8xf32> {stow.name = "y"}) {
    %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x8x8x8xf32>, tensor<16x8x3x3xf32>) -> tensor<2x16x8x8xf32>
    return %y : tensor<2x16x8x8xf32>
  }
}

// -----

// Tests grouped and depthwise convolutions: the weight's layout splits the output channels into the
// groups first ("g2 ...", "g8 ..."), whatever follows, or is plain.
// CHECK-LABEL: func.func @train
// CHECK-SAME: tensor<16x4x3x3xf32{{(, #stow.layout<"g2 .*">)?}}> {stow.kind = "parameter", stow.name = "grouped"}
// CHECK-SAME: tensor<8x1x3x3xf32{{(, #stow.layout<"g8 .*">)?}}> {stow.kind = "parameter", stow.name = "depthwise"}
// CHECK: stow.conv2d {{.*}}groups = 2
// CHECK: stow.conv2d {{.*}}groups = 8
func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = "input"}, %w: tensor<16x4x3x3xf32> {stow.name = "grouped", stow.kind = "parameter"},
    %d: tensor<8x1x3x3xf32> {stow.name = "depthwise", stow.kind = "parameter"}) {
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
// CHECK: %[[P:.*]] = stow.reorder %{{.*}} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT: stow.reshape %[[P]] : (tensor<2x8x4x4xf32>) -> tensor<2x128xf32>
// CHECK-NOT: stow.reorder
// CHECK: stow.reshape %{{.*}} : (tensor<2x8x1x1xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8xf32>
// CHECK: stow.reshape %{{.*}} : (tensor<2x8xf32>) -> tensor<2x8x1x1xf32, #stow.layout<"0,2,3,1">>
func.func @eval(%x: tensor<2x8x4x4xf32> {stow.name = "x", stow.kind = "input"}, %p: tensor<2x8x1x1xf32> {stow.name = "p", stow.kind = "input"})
    -> (tensor<2x128xf32> {stow.name = "y"}, tensor<2x8x1x1xf32> {stow.name = "z"}) {
  %y = stow.reshape %x : (tensor<2x8x4x4xf32>) -> tensor<2x128xf32>
  %q = stow.reshape %p : (tensor<2x8x1x1xf32>) -> tensor<2x8xf32>
  %z = stow.reshape %q : (tensor<2x8xf32>) -> tensor<2x8x1x1xf32>
  return %y, %z : tensor<2x128xf32>, tensor<2x8x1x1xf32>
}

// -----

// Tests that a reshape back to an image is row-major and a reorder brings it to its reader.
// CHECK-LABEL: func.func @eval
// CHECK: %[[V:.*]] = stow.reshape %{{.*}} : (tensor<2x128xf32>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT: %[[N:.*]] = stow.reorder %[[V]] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK-NEXT: stow.avg_pool %[[N]]
func.func @eval(%x: tensor<2x128xf32> {stow.name = "x", stow.kind = "input"}) -> (tensor<2x8x2x2xf32> {stow.name = "y"}) {
  %v = stow.reshape %x : (tensor<2x128xf32>) -> tensor<2x8x4x4xf32>
  %y = stow.avg_pool %v {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false}
      : (tensor<2x8x4x4xf32>) -> tensor<2x8x2x2xf32>
  return %y : tensor<2x8x2x2xf32>
}

// -----

// Tests that concat, slice and transpose of images read and write channels last; of matrices and
// five-dimensional tensors, row-major.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.reorder
// CHECK: stow.concat {{.*}} -> tensor<2x16x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.slice {{.*}} -> tensor<2x4x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.transpose {{.*}} -> tensor<2x4x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK: stow.transpose {{.*}} -> tensor<4x2xf32>
// CHECK: stow.transpose {{.*}} : (tensor<2x2x4x4x4xf32>) -> tensor<2x4x2x4x4xf32>
func.func @eval(%x: tensor<2x8x4x4xf32> {stow.name = "x", stow.kind = "input"}, %m: tensor<2x4xf32> {stow.name = "m", stow.kind = "input"},
    %v: tensor<2x2x4x4x4xf32> {stow.name = "v", stow.kind = "input"})
    -> (tensor<2x4x4x4xf32> {stow.name = "y"}, tensor<4x2xf32> {stow.name = "z"}, tensor<2x4x2x4x4xf32> {stow.name = "u"}) {
  %c = stow.concat %x, %x {axis = 1 : i64} : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x16x4x4xf32>
  %s = stow.slice %c {starts = array<i64: 0, 4, 0, 0>, sizes = array<i64: 2, 4, 4, 4>} : (tensor<2x16x4x4xf32>) -> tensor<2x4x4x4xf32>
  %t = stow.transpose %s {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %u = stow.transpose %m {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %w = stow.transpose %v {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x2x4x4x4xf32>) -> tensor<2x4x2x4x4xf32>
  return %t, %u, %w : tensor<2x4x4x4xf32>, tensor<4x2xf32>, tensor<2x4x2x4x4xf32>
}

// -----

// Tests a weight shared by two convolutions: the first decides, the second reads it as it is or
// through a reorder, but the argument has one layout, and the sum of both gradients has it too.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[W:[a-z0-9]+]]: [[WT:tensor<8x8x3x3xf32.*]] {stow.kind = "parameter", stow.name = "w"}
// CHECK: stow.conv2d %{{[a-z0-9]+}}, %[[W]] {{.*}}[[WT]]
// CHECK: %[[SUM:.*]] = stow.add {{.*}} -> [[GT:tensor<8x8x3x3xf32.*]]
// CHECK: stow.sgd %[[W]], {{.*}} : ([[WT]], [[WT]], tensor<f32>) -> [[WT]]
func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = "input"}, %w: tensor<8x8x3x3xf32> {stow.name = "w", stow.kind = "parameter"},
    %lr: tensor<f32> {stow.name = "lr", stow.kind = "learning_rate"}) -> (tensor<8x8x3x3xf32> {stow.state = "w"}) {
  %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x8x8xf32>
  %z = stow.conv2d %y, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x4x4xf32>
  %dw2 = stow.conv2d_grad_weight %y, %z {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = "backward"}
      : (tensor<2x8x8x8xf32>, tensor<2x8x4x4xf32>) -> tensor<8x8x3x3xf32>
  %dy = stow.conv2d_grad_input %z, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = "backward"}
      : (tensor<2x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x8x8xf32>
  %dw1 = stow.conv2d_grad_weight %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = "backward"}
      : (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>) -> tensor<8x8x3x3xf32>
  %dw = stow.add %dw1, %dw2 {stow.phase = "backward"} : (tensor<8x8x3x3xf32>, tensor<8x8x3x3xf32>) -> tensor<8x8x3x3xf32>
  %w1 = stow.sgd %w, %dw, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = "update"}
      : (tensor<8x8x3x3xf32>, tensor<8x8x3x3xf32>, tensor<f32>) -> tensor<8x8x3x3xf32>
  return %w1 : tensor<8x8x3x3xf32>
}

// -----

// Tests that a frozen weight, which no update touches, takes what the forward likes best, and that
// the backward reads it as it is or through a reorder of the backward's own.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[W:[a-z0-9]+]]: [[WT:tensor<8x8x3x3xf32.*]] {stow.kind = "parameter", stow.name = "w"}
// CHECK: stow.conv2d %{{[a-z0-9]+}}, %[[W]] {{.*}}[[WT]]
// CHECK: stow.conv2d_grad_input %{{.*}}stow.phase = "backward"
// CHECK-NOT: stow.sgd
func.func @train(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = "input"}, %w: tensor<8x8x3x3xf32> {stow.name = "w", stow.kind = "parameter"}) -> (tensor<2x8x8x8xf32>) {
  %y = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x8x8xf32>
  %dx = stow.conv2d_grad_input %y, %w {stow.phase = "backward", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
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
func.func @train(%x: tensor<4x8xf32> {stow.name = "x", stow.kind = "input"}, %s: tensor<8xf32> {stow.name = "s", stow.kind = "parameter"},
    %b: tensor<8xf32> {stow.name = "b", stow.kind = "parameter"}) -> (tensor<4x8xf32>) {
  %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %y {epsilon = 1.0e-5 : f64, stow.phase = "backward"}
      : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %dx : tensor<4x8xf32>
}

// -----

// Tests elementwise ops: operands of the result's shape lie as the first of them does, here
// row-major behind a view; broadcast ones keep the house layout; constants have none.
// CHECK-LABEL: func.func @eval
// CHECK: %[[V:.*]] = stow.reshape %{{.*}} -> tensor<2x8x4x4xf32>
// CHECK-NEXT: %[[A:.*]] = stow.mul %[[V]], %{{.*}} : (tensor<2x8x4x4xf32>, tensor<8x1x1xf32>) -> tensor<2x8x4x4xf32>
// CHECK: %[[X:.*]] = stow.reorder %{{.*}} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT: stow.add %[[A]], %[[X]] : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
// CHECK: stow.add %{{.*}}, %{{.*}} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
func.func @eval(%x: tensor<2x8x4x4xf32> {stow.name = "x", stow.kind = "input"}, %m: tensor<2x128xf32> {stow.name = "m", stow.kind = "input"},
    %s: tensor<8x1x1xf32> {stow.name = "s", stow.kind = "parameter"}) -> (tensor<2x8x4x4xf32> {stow.name = "y"}, tensor<2x8x4x4xf32> {stow.name = "z"}) {
  %v = stow.reshape %m : (tensor<2x128xf32>) -> tensor<2x8x4x4xf32>
  %a = stow.mul %v, %s : (tensor<2x8x4x4xf32>, tensor<8x1x1xf32>) -> tensor<2x8x4x4xf32>
  %b = stow.add %a, %x : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %c = stow.constant dense<1.0> : tensor<2x8x4x4xf32>
  %d = stow.add %x, %c : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  return %b, %d : tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>
}

// -----

// Tests that state no op reads still gets its layout, and that a new value is brought to where the
// state is described to lie.
// CHECK-LABEL: func.func @train
// CHECK-SAME: tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">> {stow.kind = "statistic", stow.name = "m"}
// CHECK: %[[V:.*]] = stow.reshape {{.*}} -> tensor<2x8x4x4xf32>
// CHECK-NEXT: %[[N:.*]] = stow.reorder %[[V]] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>
// CHECK-NEXT: return %[[N]]
func.func @train(%x: tensor<2x128xf32> {stow.name = "x", stow.kind = "input"}, %m: tensor<2x8x4x4xf32> {stow.name = "m", stow.kind = "statistic"}) -> (tensor<2x8x4x4xf32> {stow.state = "m"}) {
  %v = stow.reshape %x : (tensor<2x128xf32>) -> tensor<2x8x4x4xf32>
  return %v : tensor<2x8x4x4xf32>
}

// -----

// Tests that the heads of an attention are no channels: nothing is channels last, nothing reordered.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.layout
// CHECK-NOT: stow.reorder
// CHECK: return
func.func @eval(%q: tensor<2x4x8x3xf32> {stow.name = "q", stow.kind = "input"}, %k: tensor<2x4x3x8xf32> {stow.name = "k", stow.kind = "input"})
    -> (tensor<2x8x32xf32> {stow.name = "y"}) {
  %s = stow.matmul %q, %k {transpose_a = false, transpose_b = false} : (tensor<2x4x8x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x8x8xf32>
  %p = stow.softmax %s {axis = 3 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %t = stow.transpose %p {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x8x8xf32>) -> tensor<2x8x4x8xf32>
  %y = stow.reshape %t : (tensor<2x8x4x8xf32>) -> tensor<2x8x32xf32>
  return %y : tensor<2x8x32xf32>
}

// -----

// Tests that rows read by index are row-major among images too: the pixels of an image of tokens are
// reordered for those who want channels last.
// CHECK-LABEL: func.func @eval
// CHECK: %[[E:.*]] = stow.embedding %{{.*}} : (tensor<9x8xf32>, tensor<2x4x4xi64>) -> tensor<2x4x4x8xf32>
// CHECK: stow.reorder %[[E]] : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32, #stow.layout<"0,2,3,1">>
func.func @eval(%i: tensor<2x4x4xi64> {stow.name = "i", stow.kind = "input"}, %t: tensor<9x8xf32> {stow.name = "t", stow.kind = "parameter"})
    -> (tensor<2x2x2x8xf32> {stow.name = "y"}) {
  %e = stow.embedding %t, %i : (tensor<9x8xf32>, tensor<2x4x4xi64>) -> tensor<2x4x4x8xf32>
  %y = stow.slice %e {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 2, 2, 8>} : (tensor<2x4x4x8xf32>) -> tensor<2x2x2x8xf32>
  return %y : tensor<2x2x2x8xf32>
}
