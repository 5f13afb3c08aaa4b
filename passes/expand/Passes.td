#ifndef STOW_EXPAND_PASSES_TD
#define STOW_EXPAND_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvolutionBiasPass : Pass<"stow-convolution-bias", "::mlir::ModuleOp"> {
  let summary = "Add a convolution's or a product's bias behind it";
  let description = [{
    A convolution with a bias that the target says is to be decomposed (on GPUs: all), and a product (on GPUs with
    `--epilogues=none`), becomes one without, and a sum. The sum is elementwise: it is fused with the activation behind it, overwrites the convolution's
    result, and in mixed precision reads the bias in f32. Values are the same but where the
    convolution's result is stored in 16 bits: it is rounded before the sum, too.

    Requires: the step form, before precision and layouts.
    Ensures: no convolution and no product with a bias that the target decomposes.

    ```mlir
    %y = stow.conv2d %x, %w, %b ... : (tensor<8x3x8x8xf32>, tensor<16x3x3x3xf32>, tensor<16xf32>) -> tensor<8x16x8x8xf32>
    // becomes
    %c = stow.conv2d %x, %w ... : (tensor<8x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x8x8xf32>
    %s = stow.reshape %b : (tensor<16xf32>) -> tensor<16x1x1xf32>
    %y = stow.add %c, %s : (tensor<8x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<8x16x8x8xf32>
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_EXPAND_PASSES_TD
