// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that dequantize prints and parses.
// CHECK-LABEL: func.func @dequantize
func.func @dequantize(%x: tensor<76xi8>, %z: tensor<136xi8>) {
  // CHECK: stow.dequantize %{{.*}} {reading = 0 : i64, scheme = "nf4"} : (tensor<76xi8>) -> tensor<8x16xbf16>
  %y = stow.dequantize %x {scheme = "nf4", reading = 0 : i64} : (tensor<76xi8>) -> tensor<8x16xbf16>
  // CHECK: stow.dequantize %{{.*}} {reading = 3 : i64, scheme = "int8"} : (tensor<136xi8>) -> tensor<2x64xf32>
  %w = stow.dequantize %z {scheme = "int8", reading = 3 : i64} : (tensor<136xi8>) -> tensor<2x64xf32>
  return
}

// Tests that coded_matmul prints and parses.
// CHECK-LABEL: func.func @coded
func.func @coded(%a: tensor<2x3x16xf32>, %x: tensor<76xi8>, %z: tensor<136xi8>) {
  // CHECK: stow.coded_matmul %{{.*}}, %{{.*}} {scheme = "nf4", transpose_b = true} : (tensor<2x3x16xf32>, tensor<76xi8>) -> tensor<2x3x8xf32>
  %y = stow.coded_matmul %a, %x {scheme = "nf4", transpose_b = true} : (tensor<2x3x16xf32>, tensor<76xi8>) -> tensor<2x3x8xf32>
  // CHECK: stow.coded_matmul %{{.*}}, %{{.*}} {scheme = "int8", transpose_b = false} : (tensor<2x3x16xf32>, tensor<136xi8>) -> tensor<2x3x8xf32>
  %w = stow.coded_matmul %a, %z {scheme = "int8", transpose_b = false} : (tensor<2x3x16xf32>, tensor<136xi8>) -> tensor<2x3x8xf32>
  return
}

// Tests that the ops of state print and parse.
// CHECK-LABEL: func.func @state
func.func @state(%x: tensor<2x256xf32>, %c: tensor<2x256xi8>, %s: tensor<2xf32>) {
  // CHECK: stow.quantize_state %{{.*}}, %{{.*}}, %{{.*}} {nonnegative} : (tensor<2x256xf32>, tensor<2x256xi8>, tensor<2xf32>) -> (tensor<2x256xi8>, tensor<2xf32>)
  %d, %t = stow.quantize_state %x, %c, %s {nonnegative} : (tensor<2x256xf32>, tensor<2x256xi8>, tensor<2xf32>) -> (tensor<2x256xi8>, tensor<2xf32>)
  // CHECK: stow.dequantize_state %{{.*}}, %{{.*}} : (tensor<2x256xi8>, tensor<2xf32>) -> tensor<2x256xf32>
  %y = stow.dequantize_state %d, %t : (tensor<2x256xi8>, tensor<2xf32>) -> tensor<2x256xf32>
  return
}
