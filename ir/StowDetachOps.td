// What the gradient must not pass.
#ifndef STOW_DETACH_OPS_TD
#define STOW_DETACH_OPS_TD

include "ir/StowBase.td"

def Stow_DetachOp : Stow_InferredOp<"detach", [Stow_Same]> {
  let summary = "The same value, through which nothing flows back";
  let description = [{
    `y = x`, a constant to the gradient: PyTorch's `detach`. It ends with the gradient:
    stow-autodiff and, in the graph that has none, stow-split-train-eval put x in its place.
    ```mlir
    %y = stow.detach %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x);
  let results = (outs Stow_FloatTensor:$y);
}

#endif // STOW_DETACH_OPS_TD
