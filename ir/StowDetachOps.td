// Marks of a model that say what a graph made of it computes: what the gradient must not pass, and what differs in evaluation.
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

def Stow_InTrainingOp : Stow_InferredOp<"in_training"> {
  let summary = "One value in training, another in evaluation";
  let description = [{
    Marks where a module computes something else once it is in evaluation mode: what it reads of a
    buffer that training has just written, and evaluation has not. The training graph gets
    `training`, the evaluation graph `evaluation`. C1: both are of one type.
    ```mlir
    %y = stow.in_training %new, %stored : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$training, Stow_Tensor:$evaluation);
  let results = (outs Stow_Tensor:$y);
}

#endif // STOW_DETACH_OPS_TD
