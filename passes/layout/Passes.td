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

#endif // STOW_LAYOUT_PASSES_TD
