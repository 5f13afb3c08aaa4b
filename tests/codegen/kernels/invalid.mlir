// RUN: stowage-opt %s --stow-emit-kernels --split-input-file --verify-diagnostics

// Tests that a blocked layout that is not shared by all tensors is an error with the next step.
func.func @mixed(%x: tensor<8x32x7x7xf32, #stow.layout<"0,1,2,3;1:16">>, %b: tensor<32x1x1xf32>) {
  // expected-error @below {{a blocked layout must be shared by all tensors of the op; reorder the operands first}}
  %y = stow.map %x, %b
      : (tensor<8x32x7x7xf32, #stow.layout<"0,1,2,3;1:16">>, tensor<32x1x1xf32>)
      -> tensor<8x32x7x7xf32, #stow.layout<"0,1,2,3;1:16">> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  return
}
