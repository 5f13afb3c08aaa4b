// RUN: stowage-opt %s --stow-kernels-to-nvvm='chip=sm_80' | sed 's/\\0A/\n/g; s/\\09/ /g' | FileCheck %s

// Tests that attention's products are those of tensor cores where its tensors have 16 bits, from tiles in
// shared memory that are brought 16 bytes at a time, two warps of 32 rows in each of few blocks, without atomics and without exponentials by polynomials.
// CHECK:     .entry k0_attention
// CHECK:     .maxntid 64
// CHECK-NOT: atom.
// CHECK:     cp.async.cg.shared.global {{.*}}, 16;
// CHECK:     ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK:     mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK:     ex2.approx.ftz.f32
// CHECK:     ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK:     .entry k1_attention_gradient
// CHECK-NOT: atom.
// CHECK:     mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
func.func @narrow(%q: tensor<4x128x64xbf16>, %dy: tensor<4x128x64xbf16>) {
  %y, %lse = stow.attention %q, %q, %q {scale = 0.125 : f64, diagonal = 0 : i64, zero_rows = false,
      ratio = 0.0 : f64, stream = 0 : i64}
      : (tensor<4x128x64xbf16>, tensor<4x128x64xbf16>, tensor<4x128x64xbf16>)
      -> (tensor<4x128x64xbf16>, tensor<4x128x2xf32>)
  %dq, %dk, %dv = stow.attention_gradient %q, %q, %q, %y, %lse, %dy {scale = 0.125 : f64,
      diagonal = 0 : i64, zero_rows = false, ratio = 0.0 : f64, stream = 0 : i64}
      : (tensor<4x128x64xbf16>, tensor<4x128x64xbf16>, tensor<4x128x64xbf16>, tensor<4x128x64xbf16>,
         tensor<4x128x2xf32>, tensor<4x128x64xbf16>)
      -> (tensor<4x128x64xbf16>, tensor<4x128x64xbf16>, tensor<4x128x64xbf16>)
  return
}

// Tests that f32 is multiplied exactly, also by rows of 128, of which two warps are a block.
// CHECK:     .entry k3_attention_gradient
// CHECK:     .maxntid 64
// CHECK-NOT: mma.sync
// CHECK:     fma.rn.f32
func.func @wide(%q: tensor<128x128xf32>, %lse: tensor<128x2xf32>) {
  %dq, %dk, %dv = stow.attention_gradient %q, %q, %q, %q, %lse, %q {scale = 0.125 : f64,
      zero_rows = false, ratio = 0.0 : f64, stream = 0 : i64}
      : (tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>,
         tensor<128x2xf32>, tensor<128x128xf32>)
      -> (tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>)
  return
}
