// RUN: stowage-opt --stow-judge-factors --split-input-file %s | FileCheck %s

// Tests that factors are judged in the product's place, alone and in the sum over all gradients.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<8x64xf16> {{[^:]*}}, %[[X:[a-z0-9]+]]: tensor<8x64xf16>
// CHECK: %[[R:.*]] = stow.reduce_sum_squares %[[DY]] {axes = array<i64: 1>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<8x64xf16>) -> tensor<8xf32>
// CHECK: %[[A:.*]] = stow.reduce_sum %[[R]] {{.*}} -> tensor<f32>
// CHECK: %[[Q:.*]] = stow.reduce_sum_squares %[[X]]
// CHECK: %[[B:.*]] = stow.reduce_sum %[[Q]]
// CHECK: %[[S:.*]] = stow.add %[[A]], %[[B]]
// CHECK: %[[G:.*]] = stow.matmul %[[DY]], %[[X]]
// CHECK-NOT: stow.reduce_sum_squares
// CHECK: stow.compare %[[S]],
// CHECK: stow.add %[[S]],
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
