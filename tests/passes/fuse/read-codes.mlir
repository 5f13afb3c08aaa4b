// RUN: stowage-opt %s --stow-read-codes --split-input-file | FileCheck %s

// Tests a forward and a backward product of few rows, the first with a bias, which is added behind it.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x3x128xf32>, %[[P:[a-z0-9]+]]: tensor<4232xi8>, %[[B:[a-z0-9]+]]: tensor<64xf32>, %[[DY:[a-z0-9]+]]: tensor<2x3x64xf32>
// CHECK-NEXT: %[[C:.*]] = stow.coded_matmul %[[X]], %[[P]] {scheme = "nf4", transpose_b = true} : (tensor<2x3x128xf32>, tensor<4232xi8>) -> tensor<2x3x64xf32>
// CHECK-NEXT: %[[Y:.*]] = stow.add %[[C]], %[[B]]
// CHECK-NEXT: %[[DX:.*]] = stow.coded_matmul %[[DY]], %[[P]] {scheme = "nf4", stow.phase = #stow.phase<backward>, transpose_b = false} : (tensor<2x3x64xf32>, tensor<4232xi8>) -> tensor<2x3x128xf32>
// CHECK-NEXT: return %[[Y]], %[[DX]]
func.func @train(%x: tensor<2x3x128xf32>, %p: tensor<4232xi8>, %b: tensor<64xf32>, %dy: tensor<2x3x64xf32>) -> (tensor<2x3x64xf32>, tensor<2x3x128xf32>) attributes {stow.role = #stow.role<train>} {
  %w = stow.dequantize %p {scheme = "nf4", reading = 0 : i64} : (tensor<4232xi8>) -> tensor<64x128xf32>
  %y = stow.matmul %x, %w, %b {transpose_a = false, transpose_b = true} : (tensor<2x3x128xf32>, tensor<64x128xf32>, tensor<64xf32>) -> tensor<2x3x64xf32>
  %v = stow.dequantize %p {scheme = "nf4", reading = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4232xi8>) -> tensor<64x128xf32>
  %dx = stow.matmul %dy, %v {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<2x3x64xf32>, tensor<64x128xf32>) -> tensor<2x3x128xf32>
  return %y, %dx : tensor<2x3x64xf32>, tensor<2x3x128xf32>
}

// -----

// Tests bf16, numbers and rows alike.
// CHECK-LABEL: func.func @train
// CHECK: stow.coded_matmul %{{.*}} : (tensor<2x128xbf16>, tensor<4232xi8>) -> tensor<2x64xbf16>
func.func @train(%l: tensor<2x128xbf16>, %p: tensor<4232xi8>) -> tensor<2x64xbf16> attributes {stow.role = #stow.role<train>} {
  %v = stow.dequantize %p {scheme = "nf4", reading = 1 : i64} : (tensor<4232xi8>) -> tensor<64x128xbf16>
  %z = stow.matmul %l, %v {transpose_a = false, transpose_b = true} : (tensor<2x128xbf16>, tensor<64x128xbf16>) -> tensor<2x64xbf16>
  return %z : tensor<2x64xbf16>
}

// -----

// Tests f16 likewise.
// CHECK-LABEL: func.func @train
// CHECK: stow.coded_matmul %{{.*}} : (tensor<2x128xf16>, tensor<4232xi8>) -> tensor<2x64xf16>
func.func @train(%l: tensor<2x128xf16>, %p: tensor<4232xi8>) -> tensor<2x64xf16> attributes {stow.role = #stow.role<train>} {
  %v = stow.dequantize %p {scheme = "nf4", reading = 1 : i64} : (tensor<4232xi8>) -> tensor<64x128xf16>
  %z = stow.matmul %l, %v {transpose_a = false, transpose_b = true} : (tensor<2x128xf16>, tensor<64x128xf16>) -> tensor<2x64xf16>
  return %z : tensor<2x64xf16>
}

// -----

// Tests what stays: more rows than few, results wider than the numbers, rows that are no whole blocks.
// CHECK-LABEL: func.func @train
// CHECK-COUNT-3: stow.matmul
// CHECK-NOT: stow.coded_matmul
func.func @train(%x: tensor<9x128xf32>, %n: tensor<2x16xf32>, %p: tensor<4232xi8>, %q: tensor<76xi8>, %k: tensor<2x128xbf16>) -> (tensor<9x64xf32>, tensor<2x8xf32>, tensor<2x64xf32>) attributes {stow.role = #stow.role<train>} {
  %w = stow.dequantize %p {scheme = "nf4", reading = 0 : i64} : (tensor<4232xi8>) -> tensor<64x128xf32>
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<9x128xf32>, tensor<64x128xf32>) -> tensor<9x64xf32>
  %u = stow.dequantize %q {scheme = "nf4", reading = 0 : i64} : (tensor<76xi8>) -> tensor<8x16xf32>
  %s = stow.matmul %n, %u {transpose_a = false, transpose_b = true} : (tensor<2x16xf32>, tensor<8x16xf32>) -> tensor<2x8xf32>
  %r = stow.dequantize %p {scheme = "nf4", reading = 2 : i64} : (tensor<4232xi8>) -> tensor<64x128xbf16>
  %t = stow.matmul %k, %r {transpose_a = false, transpose_b = true} : (tensor<2x128xbf16>, tensor<64x128xbf16>) -> tensor<2x64xf32>
  return %y, %s, %t : tensor<9x64xf32>, tensor<2x8xf32>, tensor<2x64xf32>
}
