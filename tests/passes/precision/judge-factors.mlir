// RUN: stowage-opt --stow-judge-factors --split-input-file %s | FileCheck %s
// RUN: stowage-opt --stow-judge-factors=least-elements=4609 --split-input-file %s | FileCheck %s --check-prefix=LARGE

// Tests that gradients of fewer elements than the option says are judged themselves.
// LARGE-COUNT-6: stow.reduce_sum_squares
// LARGE-NOT: stow.reduce_sum_squares

// Tests that factors are judged in the product's place, alone and in the sum over all gradients.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<8x64xf16> {{[^:]*}}, %[[X:[a-z0-9]+]]: tensor<8x64xf16>
// CHECK: %[[R:.*]] = stow.reduce_sum_squares %[[DY]] {axes = array<i64: 1>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<8x64xf16>) -> tensor<8xf32>
// CHECK: %[[A:.*]] = stow.reduce_sum %[[R]] {{.*}} -> tensor<f32>
// CHECK: %[[Q:.*]] = stow.reduce_sum_squares %[[X]]
// CHECK: %[[B:.*]] = stow.reduce_sum %[[Q]]
// CHECK: %[[S:.*]] = stow.add %[[A]], %[[B]]
// CHECK-NOT: stow.reduce_sum_squares
// CHECK: stow.compare %[[S]],
// CHECK: stow.add %[[S]],
// CHECK: %[[G:.*]] = stow.matmul %[[DY]], %[[X]]
func.func @train(%dy: tensor<8x64xf16> {stow.kind = #stow.kind<input>}, %x: tensor<8x64xf16> {stow.kind = #stow.kind<input>}, %other: tensor<f32> {stow.kind = #stow.kind<input>}) -> (tensor<64x64xf32>, tensor<i1>, tensor<i1>) attributes {stow.role = #stow.role<train>} {
  %inf = stow.constant dense<0x7F800000> : tensor<f32>
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x64xf16>, tensor<8x64xf16>) -> tensor<64x64xf32>
  %r = stow.reduce_sum_squares %g {axes = array<i64: 1>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %s = stow.reduce_sum %r {axes = array<i64: 0>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<64xf32>) -> tensor<f32>
  %ok = stow.compare %s, %inf {predicate = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %total = stow.add %s, %other : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %all = stow.compare %total, %inf {predicate = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %g, %ok, %all : tensor<64x64xf32>, tensor<i1>, tensor<i1>
}

// -----

// Tests what is judged itself: a gradient whose squares are a norm, for clipping; factors with a wider
// range; and factors that are larger than their product.
// CHECK-LABEL: @train(
// CHECK: %[[G:.*]] = stow.matmul
// CHECK: stow.reduce_sum_squares %[[G]]
// CHECK: %[[H:.*]] = stow.matmul
// CHECK: stow.reduce_sum_squares %[[H]]
// CHECK: %[[K:.*]] = stow.matmul
// CHECK: stow.reduce_sum_squares %[[K]]
func.func @train(%dy: tensor<8x64xf16> {stow.kind = #stow.kind<input>}, %wide: tensor<8x64xbf16> {stow.kind = #stow.kind<input>}, %tall: tensor<800x64xf16> {stow.kind = #stow.kind<input>}) -> (tensor<f32>, tensor<i1>, tensor<i1>) attributes {stow.role = #stow.role<train>} {
  %inf = stow.constant dense<0x7F800000> : tensor<f32>
  %g = stow.matmul %dy, %dy {transpose_a = true, transpose_b = false} : (tensor<8x64xf16>, tensor<8x64xf16>) -> tensor<64x64xf32>
  %gr = stow.reduce_sum_squares %g {axes = array<i64: 1>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
  %gs = stow.reduce_sum %gr {axes = array<i64: 0>, keepdims = false} : (tensor<64xf32>) -> tensor<f32>
  %norm = stow.sqrt %gs : (tensor<f32>) -> tensor<f32>
  %h = stow.matmul %wide, %wide {transpose_a = true, transpose_b = false} : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<64x64xf32>
  %hr = stow.reduce_sum_squares %h {axes = array<i64: 1>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
  %hs = stow.reduce_sum %hr {axes = array<i64: 0>, keepdims = false} : (tensor<64xf32>) -> tensor<f32>
  %hok = stow.compare %hs, %inf {predicate = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %k = stow.matmul %tall, %tall {transpose_a = true, transpose_b = false} : (tensor<800x64xf16>, tensor<800x64xf16>) -> tensor<64x64xf32>
  %kr = stow.reduce_sum_squares %k {axes = array<i64: 1>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
  %ks = stow.reduce_sum %kr {axes = array<i64: 0>, keepdims = false} : (tensor<64xf32>) -> tensor<f32>
  %kok = stow.compare %ks, %inf {predicate = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %norm, %hok, %kok : tensor<f32>, tensor<i1>, tensor<i1>
}

// -----

// Tests that the gradient of a convolution's weight is told by image and gradient, and is made where it is read: until
// all is judged its factors wait, which are smaller.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x16x5x5xf16> {{[^:]*}}, %[[DY:[a-z0-9]+]]: tensor<2x32x3x3xf16>
// CHECK: %[[R:.*]] = stow.reduce_sum_squares %[[X]] {axes = array<i64: 1, 2, 3>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<2x16x5x5xf16>) -> tensor<2xf32>
// CHECK: %[[A:.*]] = stow.reduce_sum %[[R]] {{.*}} -> tensor<f32>
// CHECK: stow.reduce_sum_squares %[[DY]]
// CHECK: %[[S:.*]] = stow.add
// CHECK-NOT: stow.conv2d_grad_weight
// CHECK: stow.compare %[[S]],
// CHECK-NEXT: %[[G:.*]] = stow.conv2d_grad_weight %[[X]], %[[DY]]
// CHECK-NEXT: stow.relu %[[G]]
func.func @train(%x: tensor<2x16x5x5xf16> {stow.kind = #stow.kind<input>}, %dy: tensor<2x32x3x3xf16> {stow.kind = #stow.kind<input>}) -> (tensor<32x16x3x3xf32>, tensor<i1>) attributes {stow.role = #stow.role<train>} {
  %inf = stow.constant dense<0x7F800000> : tensor<f32>
  %g = stow.conv2d_grad_weight %x, %dy {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<2x16x5x5xf16>, tensor<2x32x3x3xf16>) -> tensor<32x16x3x3xf32>
  %s = stow.reduce_sum_squares %g {axes = array<i64: 0, 1, 2, 3>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<32x16x3x3xf32>) -> tensor<f32>
  %ok = stow.compare %s, %inf {predicate = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %update = stow.relu %g : (tensor<32x16x3x3xf32>) -> tensor<32x16x3x3xf32>
  return %update, %ok : tensor<32x16x3x3xf32>, tensor<i1>
}

// -----

// Tests that a stride that passes over positions of the image leaves the gradient to be judged itself: what is not finite there
// is in no sum.
// CHECK-LABEL: @train(
// CHECK: %[[G:.*]] = stow.conv2d_grad_weight
// CHECK: stow.reduce_sum_squares %[[G]]
func.func @train(%x: tensor<2x64x4x4xf16> {stow.kind = #stow.kind<input>}, %dy: tensor<2x64x2x2xf16> {stow.kind = #stow.kind<input>}) -> (tensor<64x64x1x1xf32>, tensor<i1>) attributes {stow.role = #stow.role<train>} {
  %inf = stow.constant dense<0x7F800000> : tensor<f32>
  %g = stow.conv2d_grad_weight %x, %dy {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x64x4x4xf16>, tensor<2x64x2x2xf16>) -> tensor<64x64x1x1xf32>
  %s = stow.reduce_sum_squares %g {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<64x64x1x1xf32>) -> tensor<f32>
  %ok = stow.compare %s, %inf {predicate = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %g, %ok : tensor<64x64x1x1xf32>, tensor<i1>
}
