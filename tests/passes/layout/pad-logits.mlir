// RUN: stowage-opt %s --target=cuda:h100 --stow-pad-logits | FileCheck %s

// Tests that logits whose rows are no whole vectors get columns: the weight rows of zeros, the bias the lowest number, so that their probabilities
// and gradients are 0; the gradient of the factor contracts zeros more, that of the weight has its first rows, that of the bias its first sums.
// CHECK-LABEL: @train
// CHECK: %[[ZEROS:.*]] = stow.constant dense<0.000000e+00> : tensor<7x1024xbf16>
// CHECK: %[[WIDE:.*]] = stow.concat %arg1, %[[ZEROS]] {axis = 0 : i64} : (tensor<1001x1024xbf16>, tensor<7x1024xbf16>) -> tensor<1008x1024xbf16>
// CHECK: %[[NONE:.*]] = stow.constant dense<0.000000e+00> : tensor<1001xbf16>
// CHECK: %[[LOWEST:.*]] = stow.constant dense<-3.389530e+38> : tensor<7xbf16>
// CHECK: %[[BIAS:.*]] = stow.concat %[[NONE]], %[[LOWEST]] {axis = 0 : i64}
// CHECK: %[[Y:.*]] = stow.matmul %arg0, %[[WIDE]], %[[BIAS]] {transpose_a = false, transpose_b = true} : {{.*}} -> tensor<2x256x1008xbf16>
// CHECK: %[[ROWS:.*]] = stow.reshape %[[Y]] : (tensor<2x256x1008xbf16>) -> tensor<512x1008xbf16>
// CHECK: stow.cross_entropy_rows %[[ROWS]], %arg2
// CHECK: %[[D:.*]] = stow.cross_entropy_rows_grad %[[ROWS]], {{.*}} -> tensor<512x1008xbf16>
// CHECK: stow.matmul %[[D]], %[[WIDE]] {{.*}}transpose_a = false, transpose_b = false} : (tensor<512x1008xbf16>, tensor<1008x1024xbf16>) -> tensor<512x1024xbf16>
// CHECK: %[[DW:.*]] = stow.matmul %[[D]], %{{.*}}transpose_a = true, transpose_b = false} : {{.*}} -> tensor<1008x1024xf32>
// CHECK: %[[FIRST:.*]] = stow.slice %[[DW]] {sizes = array<i64: 1001, 1024>, starts = array<i64: 0, 0>{{.*}} -> tensor<1001x1024xf32>
// CHECK: %[[SUMS:.*]] = stow.reduce_sum %[[D]] {axes = array<i64: 0>{{.*}} -> tensor<1008xbf16>
// CHECK: stow.slice %[[SUMS]] {sizes = array<i64: 1001>
// CHECK: return %{{.*}}, %{{.*}}, %[[FIRST]]
// A product that contracts rows of the gradient from the right, and a reader that is none of these, which gets a part.
// CHECK-LABEL: @right
// CHECK: stow.matmul %{{.*}}, %[[R:.*]] {{.*}}transpose_a = true, transpose_b = false} : {{.*}} -> tensor<1024x1008xf32>
// CHECK-NEXT: stow.slice {{.*}} -> tensor<1024x1001xf32>
// CHECK: stow.slice %[[R]] {sizes = array<i64: 512, 1001>
// What smooths labels reads all classes, and stays; so do logits that are given away, logits in f32, and rows of whole vectors; and evaluation.
// CHECK-LABEL: @smooth
// CHECK-NOT: stow.concat
// CHECK-LABEL: @given
// CHECK-NOT: stow.concat
// CHECK-LABEL: @wide
// CHECK-NOT: stow.concat
// CHECK-LABEL: @whole
// CHECK-NOT: stow.concat
// CHECK-LABEL: @eval
// CHECK-NOT: stow.concat
module {
  func.func @train(%x: tensor<2x256x1024xbf16>, %w: tensor<1001x1024xbf16>, %t: tensor<512xi64>, %dl: tensor<512xf32>) -> (tensor<512xf32>, tensor<512x1024xbf16>, tensor<1001x1024xf32>, tensor<1001xbf16>) attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<2x256x1024xbf16>, tensor<1001x1024xbf16>) -> tensor<2x256x1001xbf16>
    %rows = stow.reshape %y : (tensor<2x256x1001xbf16>) -> tensor<512x1001xbf16>
    %l, %lse = stow.cross_entropy_rows %rows, %t {ignore_index = -100 : i64} : (tensor<512x1001xbf16>, tensor<512xi64>) -> (tensor<512xf32>, tensor<512xf32>)
    %d = stow.cross_entropy_rows_grad %rows, %t, %lse, %dl {ignore_index = -100 : i64} : (tensor<512x1001xbf16>, tensor<512xi64>, tensor<512xf32>, tensor<512xf32>) -> tensor<512x1001xbf16>
    %dx = stow.matmul %d, %w {transpose_a = false, transpose_b = false} : (tensor<512x1001xbf16>, tensor<1001x1024xbf16>) -> tensor<512x1024xbf16>
    %flat = stow.reshape %x : (tensor<2x256x1024xbf16>) -> tensor<512x1024xbf16>
    %dw = stow.matmul %d, %flat {transpose_a = true, transpose_b = false} : (tensor<512x1001xbf16>, tensor<512x1024xbf16>) -> tensor<1001x1024xf32>
    %db = stow.reduce_sum %d {axes = array<i64: 0>, keepdims = false} : (tensor<512x1001xbf16>) -> tensor<1001xbf16>
    return %l, %dx, %dw, %db : tensor<512xf32>, tensor<512x1024xbf16>, tensor<1001x1024xf32>, tensor<1001xbf16>
  }
  func.func @right(%x: tensor<512x1024xbf16>, %w: tensor<1024x1001xbf16>, %t: tensor<512xi64>, %dl: tensor<512xf32>) -> (tensor<1024x1001xf32>, tensor<512x1001xbf16>) attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<512x1024xbf16>, tensor<1024x1001xbf16>) -> tensor<512x1001xbf16>
    %l, %lse = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<512x1001xbf16>, tensor<512xi64>) -> (tensor<512xf32>, tensor<512xf32>)
    %d = stow.cross_entropy_rows_grad %y, %t, %lse, %dl {ignore_index = -100 : i64} : (tensor<512x1001xbf16>, tensor<512xi64>, tensor<512xf32>, tensor<512xf32>) -> tensor<512x1001xbf16>
    %dw = stow.matmul %x, %d {transpose_a = true, transpose_b = false} : (tensor<512x1024xbf16>, tensor<512x1001xbf16>) -> tensor<1024x1001xf32>
    %n = stow.neg %d : (tensor<512x1001xbf16>) -> tensor<512x1001xbf16>
    return %dw, %n : tensor<1024x1001xf32>, tensor<512x1001xbf16>
  }
  func.func @smooth(%x: tensor<512x1024xbf16>, %w: tensor<1001x1024xbf16>, %t: tensor<512xi64>) -> tensor<512xf32> attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<512x1024xbf16>, tensor<1001x1024xbf16>) -> tensor<512x1001xbf16>
    %l, %lse = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64, label_smoothing = 0.1 : f64} : (tensor<512x1001xbf16>, tensor<512xi64>) -> (tensor<512xf32>, tensor<512xf32>)
    return %l : tensor<512xf32>
  }
  func.func @given(%x: tensor<512x1024xbf16>, %w: tensor<1001x1024xbf16>, %t: tensor<512xi64>) -> (tensor<512xf32>, tensor<512x1001xbf16>) attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<512x1024xbf16>, tensor<1001x1024xbf16>) -> tensor<512x1001xbf16>
    %l, %lse = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<512x1001xbf16>, tensor<512xi64>) -> (tensor<512xf32>, tensor<512xf32>)
    return %l, %y : tensor<512xf32>, tensor<512x1001xbf16>
  }
  func.func @wide(%x: tensor<512x1024xf32>, %w: tensor<1001x1024xf32>, %t: tensor<512xi64>) -> tensor<512xf32> attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<512x1024xf32>, tensor<1001x1024xf32>) -> tensor<512x1001xf32>
    %l, %lse = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<512x1001xf32>, tensor<512xi64>) -> (tensor<512xf32>, tensor<512xf32>)
    return %l : tensor<512xf32>
  }
  func.func @whole(%x: tensor<512x1024xbf16>, %w: tensor<1000x1024xbf16>, %t: tensor<512xi64>) -> tensor<512xf32> attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<512x1024xbf16>, tensor<1000x1024xbf16>) -> tensor<512x1000xbf16>
    %l, %lse = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<512x1000xbf16>, tensor<512xi64>) -> (tensor<512xf32>, tensor<512xf32>)
    return %l : tensor<512xf32>
  }
  func.func @eval(%x: tensor<512x1024xbf16>, %w: tensor<1001x1024xbf16>, %t: tensor<512xi64>) -> tensor<512xf32> attributes {stow.role = #stow.role<eval>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<512x1024xbf16>, tensor<1001x1024xbf16>) -> tensor<512x1001xbf16>
    %l, %lse = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<512x1001xbf16>, tensor<512xi64>) -> (tensor<512xf32>, tensor<512xf32>)
    return %l : tensor<512xf32>
  }
}
