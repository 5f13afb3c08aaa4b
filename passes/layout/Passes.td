#ifndef STOW_LAYOUT_PASSES_TD
#define STOW_LAYOUT_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignLayoutsPass : Pass<"stow-assign-layouts", "::mlir::ModuleOp"> {
  let summary = "Choose the physical layout of every tensor";
  let description = [{
    Four-dimensional activations are stored channels last, unless the graph multiplies stacks of
    matrices and has no channels; convolution weights as the library likes
    best in the forward pass, everything else row-major. Where an op wants another layout than its
    operand has, a stow.reorder is inserted, which is planned like any other op.

    Requires: the step form, without layouts.
    Ensures: every tensor type carries its layout; state has the same layout in all graphs; every
    reshape is a view of the bytes of its operand.

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
  let statistics = [Statistic<"reorders", "reorders", "reorders inserted">];
}

#endif // STOW_LAYOUT_PASSES_TD
