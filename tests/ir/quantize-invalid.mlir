// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// dequantize C1: a known scheme.
func.func @case(%x: tensor<76xi8>) {
  // expected-error @+1 {{expects "nf4" or "int8" as its scheme, found "fp4"}}
  %y = stow.dequantize %x {scheme = "fp4", reading = 0 : i64} : (tensor<76xi8>) -> tensor<8x16xbf16>
  return
}

// -----

// C2: whole pairs of blocks.
func.func @case(%x: tensor<76xi8>) {
  // expected-error @+1 {{expects a multiple of 128 elements, found 64}}
  %y = stow.dequantize %x {scheme = "nf4", reading = 0 : i64} : (tensor<76xi8>) -> tensor<4x16xbf16>
  return
}

// -----

// C3: as many bytes.
func.func @case(%x: tensor<80xi8>) {
  // expected-error @+1 {{expects 76 elements of i8 for 128 numbers in nf4, found 'tensor<80xi8>'}}
  %y = stow.dequantize %x {scheme = "nf4", reading = 0 : i64} : (tensor<80xi8>) -> tensor<8x16xbf16>
  return
}

// -----

// dequantize_state C1: codes of the same shape.
func.func @case(%c: tensor<256x2xi8>, %s: tensor<2xf32>) {
  // expected-error @+1 {{expects codes of i8 for a multiple of 256 numbers of the same shape, found 'tensor<256x2xi8>' for 'tensor<2x256xf32>'}}
  %y = stow.dequantize_state %c, %s : (tensor<256x2xi8>, tensor<2xf32>) -> tensor<2x256xf32>
  return
}

// -----

// C2: a scale for each block.
func.func @case(%c: tensor<2x256xi8>, %s: tensor<3xf32>) {
  // expected-error @+1 {{expects 2 scales of f32, found 'tensor<3xf32>'}}
  %y = stow.dequantize_state %c, %s : (tensor<2x256xi8>, tensor<3xf32>) -> tensor<2x256xf32>
  return
}

// -----

// quantize_state C1: results are what is overwritten.
func.func @case(%x: tensor<2x256xf32>, %c: tensor<2x256xi8>, %s: tensor<2xf32>) {
  // expected-error @+1 {{expects results of the types that it overwrites, found 'tensor<2x256xi8>' and 'tensor<3xf32>'}}
  %d, %t = stow.quantize_state %x, %c, %s : (tensor<2x256xf32>, tensor<2x256xi8>, tensor<2xf32>) -> (tensor<2x256xi8>, tensor<3xf32>)
  return
}

// -----

// coded_matmul C1: a known scheme.
func.func @case(%a: tensor<2x16xf32>, %x: tensor<76xi8>) {
  // expected-error @+1 {{expects "nf4" or "int8" as its scheme, found "fp4"}}
  %y = stow.coded_matmul %a, %x {scheme = "fp4", transpose_b = true} : (tensor<2x16xf32>, tensor<76xi8>) -> tensor<2x8xf32>
  return
}

// -----

// C2: the bytes of the matrix.
func.func @case(%a: tensor<2x16xf32>, %x: tensor<80xi8>) {
  // expected-error @+1 {{expects the bytes of 16 x 8 numbers in nf4, found 'tensor<80xi8>'}}
  %y = stow.coded_matmul %a, %x {scheme = "nf4", transpose_b = true} : (tensor<2x16xf32>, tensor<80xi8>) -> tensor<2x8xf32>
  return
}

// -----

// C3: rows as the left factor has them.
func.func @case(%a: tensor<2x16xf32>, %x: tensor<76xi8>) {
  // expected-error @+1 {{expects the leading dimensions of 'tensor<2x16xf32>', found 'tensor<3x8xf32>'}}
  %y = stow.coded_matmul %a, %x {scheme = "nf4", transpose_b = true} : (tensor<2x16xf32>, tensor<76xi8>) -> tensor<3x8xf32>
  return
}
