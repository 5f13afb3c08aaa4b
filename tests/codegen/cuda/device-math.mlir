// RUN: stowage-opt %s --stow-kernels-to-nvvm='chip=sm_80' | sed 's/\\0A/\n/g; s/\\09/ /g' | FileCheck %s

// Tests that exponentials and error functions are one power of two each, without conversions to integers.
// CHECK:     .entry k0_map
// CHECK-NOT: cvt.rzi
// CHECK:     ex2.approx.ftz.f32
// CHECK-NOT: cvt.rzi
func.func @exp(%x: tensor<8xf32>) {
  %y = stow.map %x : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: f32):
    %b = math.exp %a : f32
    stow.yield %b : f32
  }
  return
}

// Of an error function a thread has four, each with one selection, between a small argument and a large one.
// CHECK:         .entry k1_map
// CHECK-COUNT-4: selp.f32
// CHECK-NOT:     selp.f32
// CHECK:         st.global
func.func @erf(%x: tensor<1x8xf32>) {
  %y = stow.map %x : (tensor<1x8xf32>) -> tensor<1x8xf32> {
  ^bb0(%a: f32):
    %b = math.erf %a : f32
    stow.yield %b : f32
  }
  return
}
