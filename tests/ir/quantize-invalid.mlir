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
