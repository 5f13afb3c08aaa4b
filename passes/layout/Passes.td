#ifndef STOW_LAYOUT_PASSES_TD
#define STOW_LAYOUT_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignLayoutsPass : Pass<"stow-assign-layouts", "::mlir::ModuleOp"> {
  let summary = "Choose the physical layout of every tensor";
  let description = [{
    Activations have an order of their dimensions: convolutions, pooling and batch normalization
    vote for channels last, matrix products for orders with whole rows, everything else follows its
    neighbours; a reshape or a transpose whose sides describe the same bytes is a view. Convolution
    weights have the layout that most of the library's calls on them have fast code for and that
    adds less than a hundredth to their bytes; a call that has none reads or writes a copy in the
    layout it likes. Where an op wants another layout than its operand has, a stow.reorder is
    inserted, which is planned like any other op.

    Requires: the step form, without layouts.
    Ensures: every tensor type carries its layout; state has the same layout in all graphs and is not
    padded; every reshape is a view of the bytes of its operand.

    ```mlir
    %y = stow.conv2d %x, %w ... : (tensor<8x3x8x8xf32>, tensor<16x3x3x3xf32>) -> ...
    // becomes
    %y = stow.conv2d %x, %w ... : (tensor<8x3x8x8xf32, #stow.layout<"0,2,3,1">>,
                                   tensor<16x3x3x3xf32, #stow.layout<"0,1,2,3;0:16">>) -> ...
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def PadLogitsPass : Pass<"stow-pad-logits", "::mlir::ModuleOp"> {
  let summary = "Give logits as many columns as a device's products are fast with";
  let description = [{
    What: where the rows of a product are the logits of cross-entropies and of their gradients and nothing else, and the target is slow with
    rows of that many elements, product, losses and what the backward computes of them have a few classes more: the weight has rows of
    zeros for them, the bias the lowest finite number, so that their probabilities and gradients are exactly 0. The gradient of the weight
    has its first rows. Losses that weigh classes or smooth labels read all classes, and stay. So do heads of less than 1e9 operations.

    Requires: the step form, before layouts; targets that are classes (which the runtime checks where data come in).
    Ensures: values of the losses and gradients but for rounding.

    ```mlir
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<4096x768xbf16>, tensor<50257x768xbf16>) -> tensor<4096x50257xbf16>
    %l, %s = stow.cross_entropy_rows %y, %t ...
    // becomes
    %v = stow.concat %w, %zeros {axis = 0 : i64} : (tensor<50257x768xbf16>, tensor<7x768xbf16>) -> tensor<50264x768xbf16>
    %b = stow.concat %none, %lowest {axis = 0 : i64} : (tensor<50257xbf16>, tensor<7xbf16>) -> tensor<50264xbf16>
    %y = stow.matmul %x, %v, %b {transpose_a = false, transpose_b = true} : ... -> tensor<4096x50264xbf16>
    %l, %s = stow.cross_entropy_rows %y, %t ...
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_LAYOUT_PASSES_TD
