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

def BatchProductsPass : Pass<"stow-batch-products", "::mlir::ModuleOp"> {
  let summary = "Join products of few rows that share a factor, or are added up";
  let description = [{
    What: on a device where a launch takes long (`Target::launchBytes`), products of at most 256 rows, as an unrolled recurrent network has for
    each step, become products of eight of them, of up to 1,024 rows. Those with the same right factor whose left factors are there before
    the first result is read are one product, whose rows the others were: the input products of all steps. Terms of a sum that contract few rows
    each, the gradients of weights and biases by the steps, are one term that contracts the rows of all. Fewer than four are left
    alone, and so are factors of more bytes than a launch is worth. Sums are added up in another order.

    Requires: the step form, before precision and layouts; `stow.small_launches` = "apart" where all is to stay as it is.
    Ensures: nothing but the number of products and sums has changed; `stow.small_launches` = "joined" where it has.

    ```mlir
    %0 = stow.matmul %x0, %dy0 {transpose_a = true, transpose_b = false} : (tensor<64x64xf32>, tensor<64x1024xf32>) -> tensor<64x1024xf32>
    %1 = stow.matmul %x1, %dy1 {transpose_a = true, transpose_b = false} : ...
    %dw = stow.add %0, %1 : (tensor<64x1024xf32>, tensor<64x1024xf32>) -> tensor<64x1024xf32>
    // becomes, of four such terms or more
    %x = stow.concat %x0, %x1 {axis = 0 : i64} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32>
    %dy = stow.concat %dy0, %dy1 {axis = 0 : i64} : (tensor<64x1024xf32>, tensor<64x1024xf32>) -> tensor<128x1024xf32>
    %dw = stow.matmul %x, %dy {transpose_a = true, transpose_b = false} : (tensor<128x64xf32>, tensor<128x1024xf32>) -> tensor<64x1024xf32>
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_EXPAND_PASSES_TD
