// RUN: stowage-opt %s --stow-tile-attention --canonicalize --split-input-file | FileCheck %s

// Tests the spelling of GPT-2: keys transposed by the graph, scores divided, later positions chosen
// away by a constant triangle. The scores would take 2*3*4*4*4 = 384 bytes.
// CHECK-LABEL: func.func @triangle
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x3x4x8xf32>, %[[K:[^:]*]]: tensor<2x4x3x8xf32>, %[[V:[^:]*]]: tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[KEYS:.*]] = stow.transpose %[[K]] {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = stow.attention %[[Q]], %[[KEYS]], %[[V]] {diagonal = 0 : i64, ratio = 0.000000e+00 : f64, scale = 2.500000e-01 : f64, stream = 0 : i64, zero_rows = false}
// CHECK-NEXT: return %[[Y]]
func.func @triangle(%q: tensor<2x3x4x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %four = stow.constant dense<4.0> : tensor<f32>
  %none = stow.constant dense<0xFF800000> : tensor<f32>
  %mask = stow.constant dense<[[[[true, false, false, false], [true, true, false, false], [true, true, true, false], [true, true, true, true]]]]> : tensor<1x1x4x4xi1>
  %kt = stow.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x4x3x8xf32>) -> tensor<2x3x8x4xf32>
  %s = stow.matmul %q, %kt {transpose_a = false, transpose_b = false} : (tensor<2x3x4x8xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x4x4xf32>
  %d = stow.div %s, %four : (tensor<2x3x4x4xf32>, tensor<f32>) -> tensor<2x3x4x4xf32>
  %m = stow.select %mask, %d, %none : (tensor<1x1x4x4xi1>, tensor<2x3x4x4xf32>, tensor<f32>) -> tensor<2x3x4x4xf32>
  %w = stow.softmax %m {axis = 3 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %y = stow.matmul %w, %v {transpose_a = false, transpose_b = false} : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %y : tensor<2x3x4x8xf32>
}

// -----

// Tests that factors of q and k go into the scale, that an added constant triangle of minus infinity is
// the diagonal too, and that a mask of inputs stays: here queries see one key more than their own.
// CHECK-LABEL: func.func @added
// CHECK: %[[M:.*]] = stow.cast
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {diagonal = 1 : i64, ratio = 0.000000e+00 : f64, scale = 1.250000e-01 : f64
// CHECK-NEXT: return %[[Y]]
func.func @added(%q: tensor<2x3x8xf32>, %k: tensor<2x3x8xf32>, %v: tensor<2x3x8xf32>, %ids: tensor<2x1x3xi64>) -> tensor<2x3x8xf32> {
  %half = stow.constant dense<0.5> : tensor<f32>
  %quarter = stow.constant dense<0.25> : tensor<f32>
  %mask = stow.constant dense<[[0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %qs = stow.mul %q, %half : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %ks = stow.mul %quarter, %k : (tensor<f32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %s = stow.matmul %qs, %ks {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x3xf32>
  %a = stow.add %s, %mask : (tensor<2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %p = stow.cast %ids : (tensor<2x1x3xi64>) -> tensor<2x1x3xf32>
  %b = stow.add %p, %a : (tensor<2x1x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %w = stow.softmax %b {axis = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = stow.matmul %w, %v {transpose_a = false, transpose_b = false} : (tensor<2x3x3xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// -----

// Tests that a number which is written in place of scores stays where a query may keep no key: its keys then count alike,
// and their scores have no gradients. A triangle of the least value is no diagonal beside a mask of inputs.
// CHECK-LABEL: func.func @least
// CHECK-NOT: stow.attention
// CHECK: stow.softmax
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {ratio
func.func @least(%q: tensor<2x3x8xf32>, %keep: tensor<2x1x3xi1>, %ids: tensor<2x1x3xi64>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %least = stow.constant dense<-3.40282347E+38> : tensor<f32>
  %finite = stow.constant dense<[[0.0, -3.40282347E+38, -3.40282347E+38], [0.0, 0.0, -3.40282347E+38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %s = stow.matmul %q, %q {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x3xf32>
  %m = stow.select %keep, %s, %least : (tensor<2x1x3xi1>, tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x3xf32>
  %w = stow.softmax %m {axis = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = stow.matmul %w, %q {transpose_a = false, transpose_b = false} : (tensor<2x3x3xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %p = stow.cast %ids : (tensor<2x1x3xi64>) -> tensor<2x1x3xf32>
  %s1 = stow.matmul %y, %q {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x3xf32>
  %m1 = stow.add %s1, %p : (tensor<2x3x3xf32>, tensor<2x1x3xf32>) -> tensor<2x3x3xf32>
  %a1 = stow.add %m1, %finite : (tensor<2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %w1 = stow.softmax %a1 {axis = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y1 = stow.matmul %w1, %q {transpose_a = false, transpose_b = false} : (tensor<2x3x3xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %y, %y1 : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// -----

// Tests that heads which an export joins with the batch are split where the mask sees them, that
// weights which are NaN become 0, and that dropout of the model form is taken along.
// CHECK-LABEL: func.func @joined
// CHECK: %[[Q:.*]] = stow.reshape %{{.*}} : (tensor<6x4x8xf32>) -> tensor<2x3x4x8xf32>
// CHECK: %[[Y:.*]], %{{.*}} = stow.attention %[[Q]], %{{.*}}, %{{.*}} mask %{{.*}} {ratio = 1.000000e-01 : f64, scale = 1.000000e+00 : f64, stream = 0 : i64, zero_rows = true}
// CHECK-NEXT: %[[R:.*]] = stow.reshape %[[Y]] : (tensor<2x3x4x8xf32>) -> tensor<6x4x8xf32>
// CHECK-NEXT: return %[[R]]
func.func @joined(%q: tensor<6x4x8xf32>, %k: tensor<6x4x8xf32>, %v: tensor<6x4x8xf32>, %keep: tensor<2x1x1x4xi1>) -> tensor<6x4x8xf32> {
  %none = stow.constant dense<0xFF800000> : tensor<f32>
  %zero = stow.constant dense<0.0> : tensor<f32>
  %s = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : (tensor<6x4x8xf32>, tensor<6x4x8xf32>) -> tensor<6x4x4xf32>
  %t = stow.reshape %s : (tensor<6x4x4xf32>) -> tensor<2x3x4x4xf32>
  %m = stow.select %keep, %t, %none : (tensor<2x1x1x4xi1>, tensor<2x3x4x4xf32>, tensor<f32>) -> tensor<2x3x4x4xf32>
  %w = stow.softmax %m {axis = 3 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %n = stow.compare %w, %w {predicate = "eq"} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xi1>
  %z = stow.select %n, %w, %zero : (tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>, tensor<f32>) -> tensor<2x3x4x4xf32>
  %d = stow.dropout %z {ratio = 0.1 : f64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %j = stow.reshape %d : (tensor<2x3x4x4xf32>) -> tensor<6x4x4xf32>
  %y = stow.matmul %j, %v {transpose_a = false, transpose_b = false} : (tensor<6x4x4xf32>, tensor<6x4x8xf32>) -> tensor<6x4x8xf32>
  return %y : tensor<6x4x8xf32>
}

// -----

// Tests that queries which share keys, here two heads of one, are heads again, and no key is repeated.
// CHECK-LABEL: func.func @shared
// CHECK: %[[Q:.*]] = stow.reshape %{{.*}} : (tensor<2x3x8x4xf32>) -> tensor<2x6x4x4xf32>
// CHECK: stow.attention %[[Q]], %{{.*}} : (tensor<2x6x4x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>)
func.func @shared(%q: tensor<2x3x8x4xf32>, %k: tensor<2x3x5x4xf32>, %v: tensor<2x3x5x4xf32>) -> tensor<2x3x8x4xf32> {
  %s = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : (tensor<2x3x8x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x8x5xf32>
  %t = stow.reshape %s : (tensor<2x3x8x5xf32>) -> tensor<2x6x4x5xf32>
  %w = stow.softmax %t {axis = 3 : i64} : (tensor<2x6x4x5xf32>) -> tensor<2x6x4x5xf32>
  %j = stow.reshape %w : (tensor<2x6x4x5xf32>) -> tensor<2x3x8x5xf32>
  %y = stow.matmul %j, %v {transpose_a = false, transpose_b = false} : (tensor<2x3x8x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x8x4xf32>
  return %y : tensor<2x3x8x4xf32>
}

// -----

// Tests what stays: a bias of the scores that is trained, weights that are read elsewhere, a softmax
// over queries, and a finite number in place of scores where no query is known to keep a key.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: stow.attention
func.func @kept(%q: tensor<3x4x8xf32>, %b: tensor<4x4xf32> {stow.kind = #stow.kind<parameter>}, %m: tensor<4x4xi1> {stow.kind = #stow.kind<input>}) -> (tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x4xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>) {
  %low = stow.constant dense<-1.0e9> : tensor<f32>
  %s = stow.matmul %q, %q {transpose_a = false, transpose_b = true} : (tensor<3x4x8xf32>, tensor<3x4x8xf32>) -> tensor<3x4x4xf32>
  %a = stow.add %s, %b : (tensor<3x4x4xf32>, tensor<4x4xf32>) -> tensor<3x4x4xf32>
  %w = stow.softmax %a {axis = 2 : i64} : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  %y = stow.matmul %w, %q {transpose_a = false, transpose_b = false} : (tensor<3x4x4xf32>, tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %s1 = stow.matmul %q, %y {transpose_a = false, transpose_b = true} : (tensor<3x4x8xf32>, tensor<3x4x8xf32>) -> tensor<3x4x4xf32>
  %w1 = stow.softmax %s1 {axis = 2 : i64} : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  %y1 = stow.matmul %w1, %q {transpose_a = false, transpose_b = false} : (tensor<3x4x4xf32>, tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %s2 = stow.matmul %y, %q {transpose_a = false, transpose_b = true} : (tensor<3x4x8xf32>, tensor<3x4x8xf32>) -> tensor<3x4x4xf32>
  %w2 = stow.softmax %s2 {axis = 1 : i64} : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  %y2 = stow.matmul %w2, %q {transpose_a = false, transpose_b = false} : (tensor<3x4x4xf32>, tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %s3 = stow.matmul %y, %y {transpose_a = false, transpose_b = true} : (tensor<3x4x8xf32>, tensor<3x4x8xf32>) -> tensor<3x4x4xf32>
  %m3 = stow.select %m, %s3, %low : (tensor<4x4xi1>, tensor<3x4x4xf32>, tensor<f32>) -> tensor<3x4x4xf32>
  %w3 = stow.softmax %m3 {axis = 2 : i64} : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  %y3 = stow.matmul %w3, %q {transpose_a = false, transpose_b = false} : (tensor<3x4x4xf32>, tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  return %y, %y1, %w1, %y2, %y3 : tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x4xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>
}

// -----

// Tests PyTorch's export of grouped queries: keys that are repeated for the heads that share them, and
// exchanged with their heads joined to the batch, are read as they were; a constant triangle may be
// written out for the batch.
// CHECK-LABEL: func.func @repeated
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x4x2x8xf32>, %[[K:[^:]*]]: tensor<2x2x2x8xf32>, %[[V:[^:]*]]: tensor<2x2x2x8xf32>
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = stow.attention %[[Q]], %[[K]], %[[V]] {diagonal = 0 : i64, ratio = 0.000000e+00 : f64, scale = 5.000000e-01 : f64
// CHECK-NEXT: return %[[Y]]
func.func @repeated(%q: tensor<2x4x2x8xf32>, %k: tensor<2x2x2x8xf32>, %v: tensor<2x2x2x8xf32>) -> tensor<2x4x2x8xf32> {
  %half = stow.constant dense<0.5> : tensor<f32>
  %mask = stow.constant dense<[[[[0.0, 0xFF800000], [0.0, 0.0]]], [[[0.0, 0xFF800000], [0.0, 0.0]]]]> : tensor<2x1x2x2xf32>
  %k1 = stow.reshape %k : (tensor<2x2x2x8xf32>) -> tensor<2x2x1x2x8xf32>
  %k2 = stow.broadcast_to %k1 : (tensor<2x2x1x2x8xf32>) -> tensor<2x2x2x2x8xf32>
  %k3 = stow.reshape %k2 : (tensor<2x2x2x2x8xf32>) -> tensor<8x2x8xf32>
  %k4 = stow.transpose %k3 {permutation = array<i64: 0, 2, 1>} : (tensor<8x2x8xf32>) -> tensor<8x8x2xf32>
  %k5 = stow.reshape %k4 : (tensor<8x8x2xf32>) -> tensor<2x4x8x2xf32>
  %k6 = stow.mul %k5, %half : (tensor<2x4x8x2xf32>, tensor<f32>) -> tensor<2x4x8x2xf32>
  %v1 = stow.reshape %v : (tensor<2x2x2x8xf32>) -> tensor<2x2x1x2x8xf32>
  %v2 = stow.broadcast_to %v1 : (tensor<2x2x1x2x8xf32>) -> tensor<2x2x2x2x8xf32>
  %v3 = stow.reshape %v2 : (tensor<2x2x2x2x8xf32>) -> tensor<2x4x2x8xf32>
  %s = stow.matmul %q, %k6 {transpose_a = false, transpose_b = false} : (tensor<2x4x2x8xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x2x2xf32>
  %a = stow.add %s, %mask : (tensor<2x4x2x2xf32>, tensor<2x1x2x2xf32>) -> tensor<2x4x2x2xf32>
  %w = stow.softmax %a {axis = 3 : i64} : (tensor<2x4x2x2xf32>) -> tensor<2x4x2x2xf32>
  %y = stow.matmul %w, %v3 {transpose_a = false, transpose_b = false} : (tensor<2x4x2x2xf32>, tensor<2x4x2x8xf32>) -> tensor<2x4x2x8xf32>
  return %y : tensor<2x4x2x8xf32>
}

// -----

// Tests rows without a key as stowage.export writes them: zeros in place of their scores and of their results. A result without
// these zeros is that of equal weights, and stays.
// CHECK-LABEL: func.func @empty_rows
// CHECK: %[[Y:.*]], %{{.*}} = stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {ratio = 0.000000e+00 : f64, scale = 5.000000e-01 : f64, stream = 0 : i64, zero_rows = true}
// CHECK-NOT: stow.attention
// CHECK: stow.softmax
// CHECK: return %[[Y]]
func.func @empty_rows(%q: tensor<2x3x8xf32>, %k: tensor<2x5x8xf32>, %keep: tensor<2x3x5xi1>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %half = stow.constant dense<0.5> : tensor<f32>
  %zero = stow.constant dense<0.0> : tensor<f32>
  %least = stow.constant dense<0xFF800000> : tensor<f32>
  %h = stow.mul %q, %half : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %s = stow.matmul %h, %k {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>) -> tensor<2x3x5xf32>
  %m = stow.select %keep, %s, %least : (tensor<2x3x5xi1>, tensor<2x3x5xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %top = stow.reduce_max %m {axes = array<i64: 2>, keepdims = true} : (tensor<2x3x5xf32>) -> tensor<2x3x1xf32>
  %none = stow.compare %top, %least {predicate = "eq"} : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xi1>
  %some = stow.select %none, %zero, %m : (tensor<2x3x1xi1>, tensor<f32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %w = stow.softmax %some {axis = 2 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %y = stow.matmul %w, %k {transpose_a = false, transpose_b = false} : (tensor<2x3x5xf32>, tensor<2x5x8xf32>) -> tensor<2x3x8xf32>
  %z = stow.select %none, %zero, %y : (tensor<2x3x1xi1>, tensor<f32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %s1 = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>) -> tensor<2x3x5xf32>
  %m1 = stow.select %keep, %s1, %least : (tensor<2x3x5xi1>, tensor<2x3x5xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %top1 = stow.reduce_max %m1 {axes = array<i64: 2>, keepdims = true} : (tensor<2x3x5xf32>) -> tensor<2x3x1xf32>
  %none1 = stow.compare %top1, %least {predicate = "eq"} : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xi1>
  %some1 = stow.select %none1, %zero, %m1 : (tensor<2x3x1xi1>, tensor<f32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %w1 = stow.softmax %some1 {axis = 2 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %y1 = stow.matmul %w1, %k {transpose_a = false, transpose_b = false} : (tensor<2x3x5xf32>, tensor<2x5x8xf32>) -> tensor<2x3x8xf32>
  return %z, %y1 : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// -----

// Tests masks that the graph computes from positions: comparisons either way around, their opposites, all of several, as numbers and repeated for a
// batch are the diagonal that they hold up to, and nothing is read. A window is a mask.
// CHECK-LABEL: func.func @computed_triangles
// CHECK: stow.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {diagonal = 0 : i64
// CHECK: stow.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {diagonal = 1 : i64
// CHECK: stow.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {diagonal = 0 : i64
// CHECK: stow.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {diagonal = 0 : i64
// CHECK: stow.attention {{.*}} mask
// CHECK-NOT: stow.attention
func.func @computed_triangles(%q: tensor<2x3x8xf32>, %k: tensor<2x5x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %queries = stow.constant dense<[[4], [5], [6]]> : tensor<3x1xi64>
  %keys = stow.constant dense<[4, 5, 6, 7, 8]> : tensor<5xi64>
  %near = stow.constant dense<[3, 4, 5, 6, 7]> : tensor<5xi64>
  %all = stow.constant dense<true> : tensor<i1>
  %no = stow.constant dense<false> : tensor<i1>
  %one = stow.constant dense<1.0> : tensor<f32>
  %zero = stow.constant dense<0.0> : tensor<f32>
  %least = stow.constant dense<0xFF800000> : tensor<f32>
  %large = stow.constant dense<-1.0e9> : tensor<f32>
  %seen = stow.compare %queries, %keys {predicate = "ge"} : (tensor<3x1xi64>, tensor<5xi64>) -> tensor<3x5xi1>
  %s = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>) -> tensor<2x3x5xf32>
  %m = stow.select %seen, %s, %least : (tensor<3x5xi1>, tensor<2x3x5xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %w = stow.softmax %m {axis = 2 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %y = stow.matmul %w, %k {transpose_a = false, transpose_b = false} : (tensor<2x3x5xf32>, tensor<2x5x8xf32>) -> tensor<2x3x8xf32>

  %late = stow.compare %near, %queries {predicate = "gt"} : (tensor<5xi64>, tensor<3x1xi64>) -> tensor<3x5xi1>
  %s1 = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>) -> tensor<2x3x5xf32>
  %m1 = stow.select %late, %large, %s1 : (tensor<3x5xi1>, tensor<f32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %w1 = stow.softmax %m1 {axis = 2 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %y1 = stow.matmul %w1, %k {transpose_a = false, transpose_b = false} : (tensor<2x3x5xf32>, tensor<2x5x8xf32>) -> tensor<2x3x8xf32>

  %before = stow.compare %keys, %queries {predicate = "le"} : (tensor<5xi64>, tensor<3x1xi64>) -> tensor<3x5xi1>
  %rest = stow.compare %before, %no {predicate = "eq"} : (tensor<3x5xi1>, tensor<i1>) -> tensor<3x5xi1>
  %ones = stow.broadcast_to %one : (tensor<f32>) -> tensor<3x5xf32>
  %number = stow.select %rest, %ones, %zero : (tensor<3x5xi1>, tensor<3x5xf32>, tensor<f32>) -> tensor<3x5xf32>
  %future = stow.cast %number : (tensor<3x5xf32>) -> tensor<3x5xi1>
  %either = stow.select %no, %no, %future : (tensor<i1>, tensor<i1>, tensor<3x5xi1>) -> tensor<3x5xi1>
  %s4 = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>) -> tensor<2x3x5xf32>
  %m4 = stow.select %either, %least, %s4 : (tensor<3x5xi1>, tensor<f32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %w4 = stow.softmax %m4 {axis = 2 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %y4 = stow.matmul %w4, %k {transpose_a = false, transpose_b = false} : (tensor<2x3x5xf32>, tensor<2x5x8xf32>) -> tensor<2x3x8xf32>

  %both = stow.select %all, %before, %all : (tensor<i1>, tensor<3x5xi1>, tensor<i1>) -> tensor<3x5xi1>
  %chosen = stow.select %both, %zero, %large : (tensor<3x5xi1>, tensor<f32>, tensor<f32>) -> tensor<3x5xf32>
  %lead = stow.reshape %chosen : (tensor<3x5xf32>) -> tensor<1x3x5xf32>
  %added = stow.broadcast_to %lead : (tensor<1x3x5xf32>) -> tensor<2x3x5xf32>
  %s2 = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>) -> tensor<2x3x5xf32>
  %m2 = stow.add %s2, %added : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %w2 = stow.softmax %m2 {axis = 2 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %y2 = stow.matmul %w2, %k {transpose_a = false, transpose_b = false} : (tensor<2x3x5xf32>, tensor<2x5x8xf32>) -> tensor<2x3x8xf32>

  %recent = stow.compare %keys, %queries {predicate = "ne"} : (tensor<5xi64>, tensor<3x1xi64>) -> tensor<3x5xi1>
  %window = stow.select %recent, %before, %recent : (tensor<3x5xi1>, tensor<3x5xi1>, tensor<3x5xi1>) -> tensor<3x5xi1>
  %s3 = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>) -> tensor<2x3x5xf32>
  %m3 = stow.select %window, %s3, %least : (tensor<3x5xi1>, tensor<2x3x5xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %w3 = stow.softmax %m3 {axis = 2 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %y3 = stow.matmul %w3, %k {transpose_a = false, transpose_b = false} : (tensor<2x3x5xf32>, tensor<2x5x8xf32>) -> tensor<2x3x8xf32>
  return %y, %y1, %y4, %y2, %y3 : tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// -----

// Tests a window that a constant holds, one computed from positions of which a mask of inputs is a part (as modules of Transformers
// write it), and one around each query, by the distance of positions.
// CHECK-LABEL: func.func @windows
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x3x5x8xf32>, %[[PADDING:[^:]*]]: tensor<2x1x1x5xi1>
// CHECK: stow.attention %[[Q]], %[[Q]], %[[Q]] {diagonal = 0 : i64, ratio = 0.000000e+00 : f64, scale = 1.000000e+00 : f64, stream = 0 : i64, window = 2 : i64, zero_rows = false}
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[PADDING]] {diagonal = 0 : i64, ratio = 0.000000e+00 : f64, scale = 1.000000e+00 : f64, stream = 0 : i64, window = 3 : i64, zero_rows = false}
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} {diagonal = 1 : i64, ratio = 0.000000e+00 : f64, scale = 1.000000e+00 : f64, stream = 0 : i64, window = 3 : i64, zero_rows = false}
func.func @windows(%q: tensor<2x3x5x8xf32>, %padding: tensor<2x1x1x5xi1>) -> tensor<2x3x5x8xf32> {
  %none = stow.constant dense<0xFF800000> : tensor<f32>
  %mask = stow.constant dense<[[true, false, false, false, false], [true, true, false, false, false], [false, true, true, false, false], [false, false, true, true, false], [false, false, false, true, true]]> : tensor<5x5xi1>
  %queries = stow.constant dense<[[[[0], [1], [2], [3], [4]]]]> : tensor<1x1x5x1xi64>
  %before = stow.constant dense<[[[[-3], [-2], [-1], [0], [1]]]]> : tensor<1x1x5x1xi64>
  %keys = stow.constant dense<[[[[0, 1, 2, 3, 4]]]]> : tensor<1x1x1x5xi64>
  %two = stow.constant dense<2> : tensor<i64>
  %s0 = stow.matmul %q, %q {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m0 = stow.select %mask, %s0, %none : (tensor<5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w0 = stow.softmax %m0 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y0 = stow.matmul %w0, %q {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %causal = stow.compare %keys, %queries {predicate = "le"} : (tensor<1x1x1x5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %inside = stow.compare %keys, %before {predicate = "gt"} : (tensor<1x1x1x5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %window = stow.select %causal, %inside, %causal : (tensor<1x1x5x5xi1>, tensor<1x1x5x5xi1>, tensor<1x1x5x5xi1>) -> tensor<1x1x5x5xi1>
  %seen = stow.select %window, %padding, %window : (tensor<1x1x5x5xi1>, tensor<2x1x1x5xi1>, tensor<1x1x5x5xi1>) -> tensor<2x1x5x5xi1>
  %s1 = stow.matmul %y0, %y0 {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m1 = stow.select %seen, %s1, %none : (tensor<2x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w1 = stow.softmax %m1 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y1 = stow.matmul %w1, %y0 {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %apart = stow.sub %queries, %keys : (tensor<1x1x5x1xi64>, tensor<1x1x1x5xi64>) -> tensor<1x1x5x5xi64>
  %distance = stow.abs %apart : (tensor<1x1x5x5xi64>) -> tensor<1x1x5x5xi64>
  %near = stow.compare %distance, %two {predicate = "lt"} : (tensor<1x1x5x5xi64>, tensor<i64>) -> tensor<1x1x5x5xi1>
  %s2 = stow.matmul %y1, %y1 {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m2 = stow.select %near, %s2, %none : (tensor<1x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w2 = stow.softmax %m2 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y2 = stow.matmul %w2, %y1 {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y2 : tensor<2x3x5x8xf32>
}

// -----

// Tests documents in one row, whose numbers a mask compares, beside a triangle and the padding of each sample: the mask is compared
// before it has a dimension of heads, its exclusions may be finite, as every query keeps itself, and keys of other queries have numbers
// of their own. Of two kinds of documents one stays a mask.
// CHECK-LABEL: func.func @documents
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x3x5x8xf32>, %[[IDS:[^:]*]]: tensor<2x5xi64>, %[[OTHER:[^:]*]]: tensor<2x5xi64>, %[[PADDING:[^:]*]]: tensor<2x1x1x5xi1>
// CHECK: %[[D:.*]] = stow.reshape %[[IDS]] : (tensor<2x5xi64>) -> tensor<2x1x5xi64>
// CHECK: stow.attention %[[Q]], %[[Q]], %[[Q]] documents %[[D]], %[[D]] {diagonal = 0 : i64, ratio
// CHECK: %[[D1:.*]] = stow.reshape %[[IDS]] : (tensor<2x5xi64>) -> tensor<2x1x5xi64>
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[PADDING]] documents %[[D1]], %[[D1]] {diagonal = 0 : i64, ratio
// CHECK: %[[D2:.*]] = stow.reshape %[[IDS]] : (tensor<2x5xi64>) -> tensor<2x1x5xi64>
// CHECK: %[[O:.*]] = stow.reshape %[[OTHER]] : (tensor<2x5xi64>) -> tensor<2x1x5xi64>
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} documents %[[D2]], %[[O]] {ratio
// CHECK: %[[OTHERS:.*]] = stow.compare {{.*}}eq
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[OTHERS]] documents %[[D3:[^ ]*]], %[[D3]] {ratio
func.func @documents(%q: tensor<2x3x5x8xf32>, %ids: tensor<2x5xi64>, %other: tensor<2x5xi64>, %padding: tensor<2x1x1x5xi1>) -> tensor<2x3x5x8xf32> {
  %none = stow.constant dense<0xFF800000> : tensor<f32>
  %least = stow.constant dense<-3.40282347E+38> : tensor<f32>
  %queries = stow.constant dense<[[[[0], [1], [2], [3], [4]]]]> : tensor<1x1x5x1xi64>
  %keys = stow.constant dense<[[[[0, 1, 2, 3, 4]]]]> : tensor<1x1x1x5xi64>
  %ofq = stow.reshape %ids : (tensor<2x5xi64>) -> tensor<2x5x1xi64>
  %ofk = stow.reshape %ids : (tensor<2x5xi64>) -> tensor<2x1x5xi64>
  %square = stow.compare %ofq, %ofk {predicate = "ne"} : (tensor<2x5x1xi64>, tensor<2x1x5xi64>) -> tensor<2x5x5xi1>
  %no = stow.constant dense<false> : tensor<i1>
  %equal = stow.compare %square, %no {predicate = "eq"} : (tensor<2x5x5xi1>, tensor<i1>) -> tensor<2x5x5xi1>
  %same = stow.reshape %equal : (tensor<2x5x5xi1>) -> tensor<2x1x5x5xi1>
  %causal = stow.compare %keys, %queries {predicate = "le"} : (tensor<1x1x1x5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %seen = stow.select %same, %causal, %same : (tensor<2x1x5x5xi1>, tensor<1x1x5x5xi1>, tensor<2x1x5x5xi1>) -> tensor<2x1x5x5xi1>
  %s0 = stow.matmul %q, %q {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m0 = stow.select %seen, %s0, %least : (tensor<2x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w0 = stow.softmax %m0 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y0 = stow.matmul %w0, %q {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %padded = stow.select %seen, %padding, %seen : (tensor<2x1x5x5xi1>, tensor<2x1x1x5xi1>, tensor<2x1x5x5xi1>) -> tensor<2x1x5x5xi1>
  %s1 = stow.matmul %y0, %y0 {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m1 = stow.select %padded, %s1, %none : (tensor<2x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w1 = stow.softmax %m1 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y1 = stow.matmul %w1, %y0 {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %theirs = stow.reshape %other : (tensor<2x5xi64>) -> tensor<2x1x1x5xi64>
  %ours = stow.reshape %ids : (tensor<2x5xi64>) -> tensor<2x1x5x1xi64>
  %across = stow.compare %theirs, %ours {predicate = "eq"} : (tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>) -> tensor<2x1x5x5xi1>
  %s2 = stow.matmul %y1, %y1 {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m2 = stow.select %across, %s2, %none : (tensor<2x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w2 = stow.softmax %m2 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y2 = stow.matmul %w2, %y1 {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %column = stow.reshape %other : (tensor<2x5xi64>) -> tensor<2x1x5x1xi64>
  %others = stow.compare %column, %theirs {predicate = "eq"} : (tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>) -> tensor<2x1x5x5xi1>
  %two = stow.select %same, %others, %same : (tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>) -> tensor<2x1x5x5xi1>
  %s3 = stow.matmul %y2, %y2 {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m3 = stow.select %two, %s3, %none : (tensor<2x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w3 = stow.softmax %m3 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y3 = stow.matmul %w3, %y2 {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y3 : tensor<2x3x5x8xf32>
}

// -----

// Tests packed rows as modules of Transformers write them: documents are numbered by a sum of where positions do not go up by 1, and
// the triangle and the window compare positions, which within documents are as far apart as queries and keys. Other positions, and
// documents that begin elsewhere, stay a mask.
// CHECK-LABEL: func.func @packed
// CHECK: %[[SUM:.*]] = stow.cumsum
// CHECK: %[[D:.*]] = stow.reshape %[[SUM]] {{.*}} -> tensor<2x1x5xi64>
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} documents %[[D]], %[[D]] {diagonal = 0 : i64, ratio = 0.000000e+00 : f64, scale = 1.000000e+00 : f64, stream = 0 : i64, window = 3 : i64, zero_rows = false}
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} documents %[[D1:[^ ]*]], %[[D1]] {ratio
// CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} documents %[[E:[^ ]*]], %[[E]] {ratio
func.func @packed(%q: tensor<2x3x5x8xf32>, %positions: tensor<2x5xi64>, %other: tensor<2x5xi64>) -> tensor<2x3x5x8xf32> {
  %none = stow.constant dense<0xFF800000> : tensor<f32>
  %one = stow.constant dense<1> : tensor<i64>
  %three = stow.constant dense<3> : tensor<i64>
  %no = stow.constant dense<false> : tensor<i1>
  %first = stow.slice %positions {sizes = array<i64: 2, 1>, starts = array<i64: 0, 0>} : (tensor<2x5xi64>) -> tensor<2x1xi64>
  %start = stow.sub %first, %one : (tensor<2x1xi64>, tensor<i64>) -> tensor<2x1xi64>
  %joined = stow.concat %start, %positions {axis = 1 : i64} : (tensor<2x1xi64>, tensor<2x5xi64>) -> tensor<2x6xi64>
  %before = stow.slice %joined {sizes = array<i64: 2, 5>, starts = array<i64: 0, 0>} : (tensor<2x6xi64>) -> tensor<2x5xi64>
  %after = stow.slice %joined {sizes = array<i64: 2, 5>, starts = array<i64: 0, 1>} : (tensor<2x6xi64>) -> tensor<2x5xi64>
  %step = stow.sub %after, %before : (tensor<2x5xi64>, tensor<2x5xi64>) -> tensor<2x5xi64>
  %goes = stow.compare %step, %one {predicate = "eq"} : (tensor<2x5xi64>, tensor<i64>) -> tensor<2x5xi1>
  %begins = stow.compare %goes, %no {predicate = "eq"} : (tensor<2x5xi1>, tensor<i1>) -> tensor<2x5xi1>
  %counted = stow.cast %begins : (tensor<2x5xi1>) -> tensor<2x5xi64>
  %ids = stow.cumsum %counted {axis = 1 : i64, exclusive = false, reverse = false} : (tensor<2x5xi64>) -> tensor<2x5xi64>
  %ofq = stow.reshape %ids : (tensor<2x5xi64>) -> tensor<2x1x5x1xi64>
  %ofk = stow.reshape %ids : (tensor<2x5xi64>) -> tensor<2x1x1x5xi64>
  %same = stow.compare %ofq, %ofk {predicate = "eq"} : (tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>) -> tensor<2x1x5x5xi1>
  %atq = stow.reshape %positions : (tensor<2x5xi64>) -> tensor<2x1x5x1xi64>
  %atk = stow.reshape %positions : (tensor<2x5xi64>) -> tensor<2x1x1x5xi64>
  %back = stow.sub %atq, %three : (tensor<2x1x5x1xi64>, tensor<i64>) -> tensor<2x1x5x1xi64>
  %near = stow.compare %atk, %back {predicate = "gt"} : (tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>) -> tensor<2x1x5x5xi1>
  %causal = stow.compare %atk, %atq {predicate = "le"} : (tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>) -> tensor<2x1x5x5xi1>
  %window = stow.select %near, %causal, %near : (tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>) -> tensor<2x1x5x5xi1>
  %seen = stow.select %same, %window, %same : (tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>) -> tensor<2x1x5x5xi1>
  %s0 = stow.matmul %q, %q {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m0 = stow.select %seen, %s0, %none : (tensor<2x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w0 = stow.softmax %m0 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y0 = stow.matmul %w0, %q {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %theirq = stow.reshape %other : (tensor<2x5xi64>) -> tensor<2x1x5x1xi64>
  %theirk = stow.reshape %other : (tensor<2x5xi64>) -> tensor<2x1x1x5xi64>
  %later = stow.compare %theirk, %theirq {predicate = "le"} : (tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>) -> tensor<2x1x5x5xi1>
  %seen1 = stow.select %same, %later, %same : (tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>) -> tensor<2x1x5x5xi1>
  %s1 = stow.matmul %y0, %y0 {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m1 = stow.select %seen1, %s1, %none : (tensor<2x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w1 = stow.softmax %m1 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y1 = stow.matmul %w1, %y0 {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %zero = stow.constant dense<0> : tensor<i64>
  %restarts = stow.compare %positions, %zero {predicate = "eq"} : (tensor<2x5xi64>, tensor<i64>) -> tensor<2x5xi1>
  %count = stow.cast %restarts : (tensor<2x5xi1>) -> tensor<2x5xi64>
  %numbers = stow.cumsum %count {axis = 1 : i64, exclusive = false, reverse = false} : (tensor<2x5xi64>) -> tensor<2x5xi64>
  %numberq = stow.reshape %numbers : (tensor<2x5xi64>) -> tensor<2x1x5x1xi64>
  %numberk = stow.reshape %numbers : (tensor<2x5xi64>) -> tensor<2x1x1x5xi64>
  %alike = stow.compare %numberq, %numberk {predicate = "eq"} : (tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>) -> tensor<2x1x5x5xi1>
  %seen2 = stow.select %alike, %causal, %alike : (tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>) -> tensor<2x1x5x5xi1>
  %s2 = stow.matmul %y1, %y1 {transpose_a = false, transpose_b = true} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %m2 = stow.select %seen2, %s2, %none : (tensor<2x1x5x5xi1>, tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %w2 = stow.softmax %m2 {axis = 3 : i64} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y2 = stow.matmul %w2, %y1 {transpose_a = false, transpose_b = false} : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y2 : tensor<2x3x5x8xf32>
}
