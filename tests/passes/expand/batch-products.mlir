// RUN: stowage-opt %s --target=cuda:h100 --stow-batch-products --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-batch-products --split-input-file | FileCheck %s --check-prefix=HOST

// Tests that the products of a sequence's steps with one weight are one, whose rows are the steps in the order of the sequence,
// and that the host's stay as they are.
// CHECK: module attributes {stow.small_launches = "joined"}
// CHECK-LABEL: @inputs
// CHECK: %[[T:.*]] = stow.transpose %arg0 {permutation = array<i64: 1, 0, 2>}
// CHECK: %[[X:.*]] = stow.reshape %[[T]] : (tensor<4x8x16xf32>) -> tensor<32x16xf32>
// CHECK: %[[Y:.*]] = stow.matmul %[[X]], %arg1 {{.*}} -> tensor<32x24xf32>
// CHECK: %[[Y0:.*]] = stow.slice %[[Y]] {sizes = array<i64: 8, 24>, starts = array<i64: 0, 0>}
// CHECK: stow.tanh %[[Y0]]
// CHECK: %[[Y3:.*]] = stow.slice %[[Y]] {sizes = array<i64: 8, 24>, starts = array<i64: 24, 0>}
// CHECK: stow.add %{{.*}}, %[[Y3]]
// CHECK-NOT: stow.matmul
// HOST-LABEL: @inputs
// HOST-COUNT-4: stow.matmul
func.func @inputs(%x: tensor<8x4x16xf32>, %w: tensor<16x24xf32>) -> tensor<8x24xf32> {
  %s0 = stow.slice %x {starts = array<i64: 0, 0, 0>, sizes = array<i64: 8, 1, 16>} : (tensor<8x4x16xf32>) -> tensor<8x1x16xf32>
  %x0 = stow.reshape %s0 : (tensor<8x1x16xf32>) -> tensor<8x16xf32>
  %y0 = stow.matmul %x0, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x24xf32>) -> tensor<8x24xf32>
  %h0 = stow.tanh %y0 : (tensor<8x24xf32>) -> tensor<8x24xf32>
  %s1 = stow.slice %x {starts = array<i64: 0, 1, 0>, sizes = array<i64: 8, 1, 16>} : (tensor<8x4x16xf32>) -> tensor<8x1x16xf32>
  %x1 = stow.reshape %s1 : (tensor<8x1x16xf32>) -> tensor<8x16xf32>
  %y1 = stow.matmul %x1, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x24xf32>) -> tensor<8x24xf32>
  %h1 = stow.add %h0, %y1 : (tensor<8x24xf32>, tensor<8x24xf32>) -> tensor<8x24xf32>
  %s2 = stow.slice %x {starts = array<i64: 0, 2, 0>, sizes = array<i64: 8, 1, 16>} : (tensor<8x4x16xf32>) -> tensor<8x1x16xf32>
  %x2 = stow.reshape %s2 : (tensor<8x1x16xf32>) -> tensor<8x16xf32>
  %y2 = stow.matmul %x2, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x24xf32>) -> tensor<8x24xf32>
  %h2 = stow.add %h1, %y2 : (tensor<8x24xf32>, tensor<8x24xf32>) -> tensor<8x24xf32>
  %s3 = stow.slice %x {starts = array<i64: 0, 3, 0>, sizes = array<i64: 8, 1, 16>} : (tensor<8x4x16xf32>) -> tensor<8x1x16xf32>
  %x3 = stow.reshape %s3 : (tensor<8x1x16xf32>) -> tensor<8x16xf32>
  %y3 = stow.matmul %x3, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x24xf32>) -> tensor<8x24xf32>
  %h3 = stow.add %h2, %y3 : (tensor<8x24xf32>, tensor<8x24xf32>) -> tensor<8x24xf32>
  return %h3 : tensor<8x24xf32>
}

// -----

// Tests that products whose left factors follow from each other stay apart.
// CHECK-LABEL: @recurrent
// CHECK-COUNT-4: stow.matmul {{.*}} -> tensor<8x16xf32>
func.func @recurrent(%h: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %y0 = stow.matmul %h, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %y1 = stow.matmul %y0, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %y2 = stow.matmul %y1, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %y3 = stow.matmul %y2, %w {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  return %y3 : tensor<8x16xf32>
}

// -----

// Tests that four gradients of a weight are one product of all rows, in the order of the forward, and so the sums that are a bias's gradient; what
// else is added stays.
// CHECK-LABEL: @gradients
// CHECK-DAG: %[[H:.*]] = stow.concat %arg3, %arg2, %arg1, %arg0 {axis = 0 : i64}
// CHECK-DAG: %[[D:.*]] = stow.concat %arg7, %arg6, %arg5, %arg4 {axis = 0 : i64}
// CHECK: %[[W:.*]] = stow.matmul %[[H]], %[[D]] {transpose_a = true, transpose_b = false} : (tensor<32x16xf32>, tensor<32x24xf32>) -> tensor<16x24xf32>
// CHECK: %[[G:.*]] = stow.add %arg8, %[[W]]
// CHECK: %[[B:.*]] = stow.reduce_sum %[[D]] {axes = array<i64: 0>, keepdims = false}
// CHECK: return %[[G]], %[[B]]
func.func @gradients(%h3: tensor<8x16xf32>, %h2: tensor<8x16xf32>, %h1: tensor<8x16xf32>, %h0: tensor<8x16xf32>,
                     %d3: tensor<8x24xf32>, %d2: tensor<8x24xf32>, %d1: tensor<8x24xf32>, %d0: tensor<8x24xf32>,
                     %sum: tensor<16x24xf32>) -> (tensor<16x24xf32>, tensor<24xf32>) {
  %w3 = stow.matmul %h3, %d3 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %w2 = stow.matmul %h2, %d2 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %w1 = stow.matmul %h1, %d1 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %w0 = stow.matmul %h0, %d0 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %a = stow.add %sum, %w3 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %b = stow.add %a, %w2 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %c = stow.add %b, %w1 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %d = stow.add %c, %w0 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %b3 = stow.reduce_sum %d3 {axes = array<i64: 0>, keepdims = false} : (tensor<8x24xf32>) -> tensor<24xf32>
  %b2 = stow.reduce_sum %d2 {axes = array<i64: 0>, keepdims = false} : (tensor<8x24xf32>) -> tensor<24xf32>
  %b1 = stow.reduce_sum %d1 {axes = array<i64: 0>, keepdims = false} : (tensor<8x24xf32>) -> tensor<24xf32>
  %b0 = stow.reduce_sum %d0 {axes = array<i64: 0>, keepdims = false} : (tensor<8x24xf32>) -> tensor<24xf32>
  %e = stow.add %b3, %b2 : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  %f = stow.add %e, %b1 : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  %g = stow.add %f, %b0 : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  return %d, %g : tensor<16x24xf32>, tensor<24xf32>
}

// -----

// Tests that rows which a concat has below each other already are read there, though it comes later than what reads the gradient.
// CHECK-LABEL: @rows_of_a_concat
// CHECK: %[[D:.*]] = stow.concat %arg4, %arg5, %arg6, %arg7 {axis = 0 : i64}
// CHECK: %[[W:.*]] = stow.matmul %{{.*}}, %[[D]] {transpose_a = true
// CHECK: stow.tanh %[[W]]
func.func @rows_of_a_concat(%h3: tensor<8x16xf32>, %h2: tensor<8x16xf32>, %h1: tensor<8x16xf32>, %h0: tensor<8x16xf32>,
                            %d0: tensor<8x24xf32>, %d1: tensor<8x24xf32>, %d2: tensor<8x24xf32>, %d3: tensor<8x24xf32>) -> (tensor<16x24xf32>, tensor<32x24xf32>) {
  %w3 = stow.matmul %h3, %d3 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %w2 = stow.matmul %h2, %d2 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %w1 = stow.matmul %h1, %d1 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %w0 = stow.matmul %h0, %d0 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %a = stow.add %w3, %w2 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %b = stow.add %a, %w1 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %c = stow.add %b, %w0 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %t = stow.tanh %c : (tensor<16x24xf32>) -> tensor<16x24xf32>
  %all = stow.concat %d0, %d1, %d2, %d3 {axis = 0 : i64} : (tensor<8x24xf32>, tensor<8x24xf32>, tensor<8x24xf32>, tensor<8x24xf32>) -> tensor<32x24xf32>
  return %t, %all : tensor<16x24xf32>, tensor<32x24xf32>
}

// -----

// Tests that two uses of a weight, and terms of many rows, are left alone.
// CHECK-LABEL: @few_or_large
// CHECK-NOT: stow.concat
// CHECK: return
func.func @few_or_large(%h1: tensor<8x16xf32>, %h0: tensor<8x16xf32>, %d1: tensor<8x24xf32>, %d0: tensor<8x24xf32>,
                        %a: tensor<512x4xf32>, %b: tensor<512x4xf32>) -> (tensor<16x24xf32>, tensor<4x4xf32>) {
  %w1 = stow.matmul %h1, %d1 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %w0 = stow.matmul %h0, %d0 {transpose_a = true, transpose_b = false} : (tensor<8x16xf32>, tensor<8x24xf32>) -> tensor<16x24xf32>
  %w = stow.add %w1, %w0 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
  %p = stow.matmul %a, %a {transpose_a = true, transpose_b = false} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<4x4xf32>
  %q = stow.matmul %a, %b {transpose_a = true, transpose_b = false} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<4x4xf32>
  %r = stow.matmul %b, %a {transpose_a = true, transpose_b = false} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<4x4xf32>
  %s = stow.matmul %b, %b {transpose_a = true, transpose_b = false} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<4x4xf32>
  %pq = stow.add %p, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %pqr = stow.add %pq, %r : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %pqrs = stow.add %pqr, %s : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %w, %pqrs : tensor<16x24xf32>, tensor<4x4xf32>
}

// -----

// Tests that a step whose launches are to stay apart is left as it is.
// CHECK-LABEL: @as_the_budget_needs
// CHECK-NOT: stow.concat
// CHECK: return
module attributes {stow.small_launches = "apart"} {
  func.func @as_the_budget_needs(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) -> tensor<4x4xf32> {
    %p = stow.matmul %a, %a {transpose_a = true, transpose_b = false} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %q = stow.matmul %a, %b {transpose_a = true, transpose_b = false} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %r = stow.matmul %b, %a {transpose_a = true, transpose_b = false} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %s = stow.matmul %b, %b {transpose_a = true, transpose_b = false} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %pq = stow.add %p, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %pqr = stow.add %pq, %r : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %pqrs = stow.add %pqr, %s : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %pqrs : tensor<4x4xf32>
  }
}
