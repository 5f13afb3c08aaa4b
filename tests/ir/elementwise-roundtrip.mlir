// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that every elementwise op prints and parses, also in generic form.
// CHECK-LABEL: func.func @unary
func.func @unary(%x: tensor<4x8xf32>) {
  // CHECK: stow.neg %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %neg = stow.neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.abs %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %abs = stow.abs %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.sign %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sign = stow.sign %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.exp %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %exp = stow.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.log %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %log = stow.log %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.sqrt %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sqrt = stow.sqrt %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.reciprocal %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %reciprocal = stow.reciprocal %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.sigmoid %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sigmoid = stow.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.tanh %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %tanh = stow.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.erf %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %erf = stow.erf %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.sin %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sin = stow.sin %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.cos %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %cos = stow.cos %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.expm1 %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %expm1 = stow.expm1 %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.log1p %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %log1p = stow.log1p %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.atan2 %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %atan2 = stow.atan2 %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.binary_cross_entropy %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %cross_entropy = stow.binary_cross_entropy %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.atan %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %atan = stow.atan %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.round %{{.*}} {mode = "floor"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %round = stow.round %x {mode = "floor"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.softplus %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %softplus = stow.softplus %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.hard_swish %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %hard_swish = stow.hard_swish %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.relu %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %relu = stow.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// Tests broadcasting in each direction, layouts and the other float types.
// CHECK-LABEL: func.func @binary
func.func @binary(%x: tensor<4x8xf32>, %row: tensor<8xf32>, %scalar: tensor<f32>, %column: tensor<4x1xf32>,
    %d: tensor<4x8xf64>, %h: tensor<4x8xf16>, %b: tensor<4x8xbf16>,
    %nhwc: tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>) {
  // CHECK: stow.add %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %0 = stow.add %x, %row : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.sub %{{.*}}, %{{.*}} : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = stow.sub %scalar, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.mul %{{.*}}, %{{.*}} : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = stow.mul %column, %row : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.div %{{.*}}, %{{.*}} : (tensor<4x8xf64>, tensor<4x8xf64>) -> tensor<4x8xf64>
  %3 = stow.div %d, %d : (tensor<4x8xf64>, tensor<4x8xf64>) -> tensor<4x8xf64>
  // CHECK: stow.maximum %{{.*}}, %{{.*}} : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %4 = stow.maximum %h, %h : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  // CHECK: stow.minimum %{{.*}}, %{{.*}} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %5 = stow.minimum %b, %b : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  // CHECK: stow.pow %{{.*}}, %{{.*}} : (tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>, tensor<f32>) -> tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>
  %6 = stow.pow %nhwc, %scalar : (tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>, tensor<f32>) -> tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>
  return
}

// CHECK-LABEL: func.func @attributes
func.func @attributes(%x: tensor<4x8xf32>, %m: tensor<4x8xi1>, %seed: tensor<i64>) {
  // CHECK: stow.leaky_relu %{{.*}} {alpha = 1.000000e-02 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = stow.leaky_relu %x {alpha = 0.01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.thresholded_relu %{{.*}} {alpha = 5.000000e-01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %thresholded_relu = stow.thresholded_relu %x {alpha = 0.5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.leaky_relu_grad %{{.*}} {alpha = 1.000000e-02 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = stow.leaky_relu_grad %x, %x {alpha = 0.01 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.elu %{{.*}} {alpha = 1.000000e+00 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = stow.elu %x {alpha = 1.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.elu_grad %{{.*}} {alpha = 1.000000e+00 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = stow.elu_grad %x, %x {alpha = 1.0 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.hard_sigmoid %{{.*}} {alpha = 2.000000e-01 : f64, beta = 5.000000e-01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = stow.hard_sigmoid %x {alpha = 0.2 : f64, beta = 0.5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.clip %{{.*}} {high = 6.000000e+00 : f64, low = 0.000000e+00 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = stow.clip %x {low = 0.0 : f64, high = 6.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.hard_tanh %{{.*}} {high = 6.000000e+00 : f64, low = 0.000000e+00 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %hard_tanh = stow.hard_tanh %x {low = 0.0 : f64, high = 6.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.range_grad %{{.*}} {closed = true, high = 6.000000e+00 : f64, low = 0.000000e+00 : f64, slope = 1.000000e+00 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = stow.range_grad %x, %x {low = 0.0 : f64, high = 6.0 : f64, slope = 1.0 : f64, closed = true} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.dropout %{{.*}} {ratio = 5.000000e-01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = stow.dropout %x {ratio = 0.5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.dropout_training %{{.*}} {ratio = 5.000000e-01 : f64, stream = 3 : i64} : (tensor<4x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  %8 = stow.dropout_training %x, %seed {ratio = 0.5 : f64, stream = 3 : i64} : (tensor<4x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  // CHECK: stow.positive_mask %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xi1>
  %r0 = stow.positive_mask %x : (tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: stow.relu_grad %{{.*}} : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<4x8xf32>
  %r1 = stow.relu_grad %x, %m : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<4x8xf32>
  // CHECK: stow.relu_grad %{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r2 = stow.relu_grad %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.hard_swish_grad %{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r3 = stow.hard_swish_grad %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.select_grad %{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r4 = stow.select_grad %x, %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.cast %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %r5 = stow.cast %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  // CHECK: stow.select %{{.*}} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %sel = stow.select %m, %x, %x : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stow.cast %{{.*}} : (tensor<4x8xi1>) -> tensor<4x8xf32>
  %r6 = stow.cast %m : (tensor<4x8xi1>) -> tensor<4x8xf32>
  return
}

// Tests that arithmetic, comparisons and choices on whole numbers and masks print and parse.
// CHECK-LABEL: func.func @whole
func.func @whole(%a: tensor<2x8xi64>, %b: tensor<8xi64>, %m: tensor<2x8xi1>) {
  // CHECK: stow.div %{{.*}} : (tensor<2x8xi64>, tensor<8xi64>) -> tensor<2x8xi64>
  %0 = stow.div %a, %b : (tensor<2x8xi64>, tensor<8xi64>) -> tensor<2x8xi64>
  // CHECK: stow.compare %{{.*}} {predicate = "le"} : (tensor<2x8xi64>, tensor<8xi64>) -> tensor<2x8xi1>
  %1 = stow.compare %0, %b {predicate = "le"} : (tensor<2x8xi64>, tensor<8xi64>) -> tensor<2x8xi1>
  // CHECK: stow.select %{{.*}} : (tensor<2x8xi1>, tensor<2x8xi1>, tensor<2x8xi1>) -> tensor<2x8xi1>
  %2 = stow.select %1, %m, %1 : (tensor<2x8xi1>, tensor<2x8xi1>, tensor<2x8xi1>) -> tensor<2x8xi1>
  return
}

// Tests that random numbers of both forms print and parse.
// CHECK-LABEL: func.func @random
func.func @random(%seed: tensor<i64>) {
  // CHECK: stow.random {a = 0.000000e+00 : f64, b = 1.000000e+00 : f64, distribution = "normal", stream = 0 : i64} : () -> tensor<4xf32>
  %0 = stow.random {distribution = "normal", a = 0.0 : f64, b = 1.0 : f64, stream = 0 : i64} : () -> tensor<4xf32>
  // CHECK: stow.draw %{{.*}} {a = 5.000000e-01 : f64, b = 0.000000e+00 : f64, distribution = "bernoulli", stream = 1 : i64} : (tensor<i64>) -> tensor<4xf32>
  %1 = stow.draw %seed {distribution = "bernoulli", a = 0.5 : f64, b = 0.0 : f64, stream = 1 : i64} : (tensor<i64>) -> tensor<4xf32>
  return
}
