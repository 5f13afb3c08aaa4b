// RUN: stowage-opt --stow-quantize-frozen="types=nf4" --split-input-file %s | FileCheck %s
// RUN: stowage-opt --stow-quantize-frozen="types=f32,w:int8,v:nf4" --split-input-file %s | FileCheck %s --check-prefix=ASKED
// RUN: stowage-opt --stow-quantize-frozen="types=nf4" --split-input-file %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALONE

// Each product gets numbers of its own, of the type that it read, in its phase; a cast for several goes away. A vector, a bias of a
// product and what is no multiple of 128 elements stay. The last rule that matches decides.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<76xi8> {{.*}}stow.quantized = {scheme = "nf4", type = tensor<16x8xf32>}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<76xi8> {{.*}}stow.quantized = {scheme = "nf4", type = tensor<8x16xbf16>}
// CHECK-SAME: tensor<8xf32> {stow.kind = #stow.kind<frozen>, stow.name = "s"}
// CHECK-SAME: tensor<4x16xf32> {stow.kind = #stow.kind<frozen>, stow.name = "o"}
// CHECK-SAME: tensor<128xf32> {stow.kind = #stow.kind<frozen>, stow.name = "b"}
// CHECK: %[[W0:.*]] = stow.dequantize %[[W]] {reading = 0 : i64, scheme = "nf4"} : (tensor<76xi8>) -> tensor<16x8xbf16>
// CHECK-NEXT: stow.matmul %{{.*}}, %[[W0]]
// CHECK: %[[V0:.*]] = stow.dequantize %[[V]] {reading = 0 : i64, scheme = "nf4"} : (tensor<76xi8>) -> tensor<8x16xbf16>
// CHECK-NEXT: stow.matmul %{{.*}}, %[[V0]]
// CHECK: %[[W1:.*]] = stow.dequantize %[[W]] {reading = 1 : i64, scheme = "nf4", stow.phase = #stow.phase<backward>}
// CHECK-NEXT: stow.matmul %{{.*}}, %[[W1]]
// CHECK-NOT: stow.cast
// ASKED-LABEL: @train(
// ASKED-SAME: tensor<136xi8> {{.*}}scheme = "int8"
// ASKED-SAME: tensor<76xi8> {{.*}}scheme = "nf4"
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<4x16xbf16> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<16x8xf32> {stow.name = "w", stow.kind = #stow.kind<frozen>},
                   %v: tensor<8x16xbf16> {stow.name = "v", stow.kind = #stow.kind<frozen>},
                   %s: tensor<8xf32> {stow.name = "s", stow.kind = #stow.kind<frozen>},
                   %o: tensor<4x16xf32> {stow.name = "o", stow.kind = #stow.kind<frozen>},
                   %t: tensor<16x128xbf16> {stow.name = "t", stow.kind = #stow.kind<input>},
                   %e: tensor<128xf32> {stow.name = "b", stow.kind = #stow.kind<frozen>})
      -> (tensor<4x8xbf16> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %c = stow.cast %w : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %a = stow.matmul %x, %c {transpose_a = false, transpose_b = false} : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
    %b = stow.matmul %a, %v {transpose_a = false, transpose_b = false} : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
    %biased = stow.matmul %b, %t, %e {transpose_a = false, transpose_b = false}
      : (tensor<4x16xbf16>, tensor<16x128xbf16>, tensor<128xf32>) -> tensor<4x128xbf16>
    %d = stow.matmul %b, %c {transpose_a = false, transpose_b = false, stow.phase = #stow.phase<backward>}
      : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
    return %d : tensor<4x8xbf16>
  }
}

// -----

// One matrix alone is not quantized: while it is read it lies there as numbers, too, which takes more than 16 bits.
// CHECK-LABEL: @train(
// CHECK-SAME: tensor<8x16xbf16> {stow.kind = #stow.kind<frozen>, stow.name = "v"}
// ALONE: warning: frozen matrices are not quantized: that saves 180 bytes, and the largest of them takes 256 while a product reads it; in 16 bits less memory is needed
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<4x8xbf16> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %v: tensor<8x16xbf16> {stow.name = "v", stow.kind = #stow.kind<frozen>})
      -> (tensor<4x16xbf16> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %b = stow.matmul %x, %v {transpose_a = false, transpose_b = false} : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
    return %b : tensor<4x16xbf16>
  }
}

// -----

// A kernel of a convolution and a table stay numbers; a note for the plan says so, the larger first.
// CHECK: module attributes {stow.form = "step", stow.notes = ["not stored in blocks: 2 tensors of 4.50 KiB (4608 bytes) that others than products read (tables, kernels of convolutions): k, e"]}
// CHECK-LABEL: @train(
// CHECK-SAME: tensor<8x16x3x2xf32> {stow.kind = #stow.kind<frozen>, stow.name = "k"}
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<4x16xbf16> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %i: tensor<2x16x5x5xf32> {stow.name = "i", stow.kind = #stow.kind<input>},
                   %n: tensor<4xi64> {stow.name = "n", stow.kind = #stow.kind<input>},
                   %w: tensor<16x8xf32> {stow.name = "w", stow.kind = #stow.kind<frozen>},
                   %v: tensor<8x16xbf16> {stow.name = "v", stow.kind = #stow.kind<frozen>},
                   %e: tensor<32x12xf32> {stow.name = "e", stow.kind = #stow.kind<frozen>},
                   %k: tensor<8x16x3x2xf32> {stow.name = "k", stow.kind = #stow.kind<frozen>})
      -> (tensor<4x16xbf16> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %c = stow.cast %w : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %a = stow.matmul %x, %c {transpose_a = false, transpose_b = false} : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
    %b = stow.matmul %a, %v {transpose_a = false, transpose_b = false} : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
    %d = stow.conv2d %i, %k {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<2x16x5x5xf32>, tensor<8x16x3x2xf32>) -> tensor<2x8x3x4xf32>
    %t = stow.embedding %e, %n : (tensor<32x12xf32>, tensor<4xi64>) -> tensor<4x12xf32>
    return %b : tensor<4x16xbf16>
  }
}
