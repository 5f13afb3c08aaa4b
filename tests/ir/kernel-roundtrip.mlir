// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that fused kernels print and parse, with updates, broadcasting and layouts.
// CHECK-LABEL: func.func @kernels
func.func @kernels(%x: tensor<4x8xf32>, %row: tensor<8xf32>, %n: tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>) {
  // CHECK: stow.map %{{.*}}, %{{.*}} {updates = array<i64: 0, 0>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
  // CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
  // CHECK-NEXT: stow.yield %[[S]] : f32
  %0 = stow.map %x, %row {updates = array<i64: 0, 0>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    stow.yield %s : f32
  }
  // CHECK: stow.map %{{.*}} : (tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>) -> (tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>, tensor<1x2x3x4xi64>) {
  // CHECK: stow.element_index : i64
  %1:2 = stow.map %n : (tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>) -> (tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>, tensor<1x2x3x4xi64>) {
  ^bb0(%a: f32):
    %i = stow.element_index : i64
    stow.yield %a, %i : f32, i64
  }
  return
}

// Tests that a product and the kernel that uses it up print and parse, with updates that count the factors.
// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<8x32xf32>, %dy: tensor<8x64xf32>, %w: tensor<64x32xf32>, %lr: tensor<f32>) -> tensor<64x32xf32> {
  // CHECK: stow.product_map %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {transpose_a = true, transpose_b = false, updates = array<i64: 0, 2>} : (tensor<8x64xf32>, tensor<8x32xf32>, tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf32> {
  // CHECK-NEXT: ^bb0(%[[P:.*]]: f32, %[[W:.*]]: f32, %[[R:.*]]: f32):
  // CHECK: stow.yield %{{.*}} : f32
  %0 = stow.product_map %dy, %x, %w, %lr {transpose_a = true, transpose_b = false, updates = array<i64: 0, 2>} : (tensor<8x64xf32>, tensor<8x32xf32>, tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf32> {
  ^bb0(%p: f32, %old: f32, %rate: f32):
    %s = arith.mulf %p, %rate : f32
    %d = arith.subf %old, %s : f32
    stow.yield %d : f32
  }
  return %0 : tensor<64x32xf32>
}

// CHECK-LABEL: func.func @bits
func.func @bits(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: %[[Y:.*]]:2 = stow.map %{{.*}} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xi8>) {
  // CHECK: stow.yield %{{.*}}, %{{.*}} : f32, i1
  %y:2 = stow.map %x : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xi8>) {
  ^bb0(%p: f32):
    %zero = arith.constant 0.0 : f32
    %n = arith.negf %p : f32
    %b = arith.cmpf ogt, %p, %zero : f32
    stow.yield %n, %b : f32, i1
  }
  // CHECK: stow.map %[[Y]]#0, %[[Y]]#1 : (tensor<8x8xf32>, tensor<8xi8>) -> tensor<8x8xf32> {
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: i1):
  %z = stow.map %y#0, %y#1 : (tensor<8x8xf32>, tensor<8xi8>) -> tensor<8x8xf32> {
  ^bb0(%p: f32, %b: i1):
    %n = arith.negf %p : f32
    %q = arith.select %b, %p, %n : f32
    stow.yield %q : f32
  }
  return %z : tensor<8x8xf32>
}

// Tests that a convolution and the kernel behind it print and parse.
// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<2x3x8x8xbf16>, %w: tensor<4x3x3x3xbf16>, %b: tensor<4x1x1xbf16>) -> tensor<2x4x8x8xbf16> {
  // CHECK: stow.conv2d_map %{{.*}}, %{{.*}}, %{{.*}} {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<2x3x8x8xbf16>, tensor<4x3x3x3xbf16>, tensor<4x1x1xbf16>) -> tensor<2x4x8x8xbf16> {
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: bf16):
  // CHECK: stow.yield %{{.*}} : bf16
  %0 = stow.conv2d_map %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xbf16>, tensor<4x3x3x3xbf16>, tensor<4x1x1xbf16>) -> tensor<2x4x8x8xbf16> {
  ^bb0(%p: f32, %q: bf16):
    %c = arith.extf %q : bf16 to f32
    %s = arith.addf %p, %c : f32
    %n = arith.truncf %s : f32 to bf16
    stow.yield %n : bf16
  }
  return %0 : tensor<2x4x8x8xbf16>
}
