// What arrives by index, reduced by other than a sum.
#ifndef STOW_SCATTER_OPS_TD
#define STOW_SCATTER_OPS_TD

include "ir/StowBase.td"

def Stow_ScatterMaxOp : Stow_InferredOp<"scatter_max", [Stow_Same, Stow_HasGradient]> {
  let summary = "Maxima along a dimension by index";
  let description = [{
    The largest of what is there and what arrives: `y[.., indices[.., i, ..], ..]` is the maximum of x
    there and of all `updates[.., i, ..]` whose index names the place; NaN passes on. Indices are those of
    scatter_along, in dimension `axis`. Elements that are equal to the maximum share its gradient.
    C1: axis inside the rank; C2: the indices have the updates' rank, and outside the axis their extents
    or 1; C3: the indices have the updates' extent along the axis; C4: x has the updates' element type
    and outside the axis their extents.
    ```mlir
    %y = stow.scatter_max %x, %u, %i {axis = 0 : i64}
        : (tensor<100x64xf32>, tensor<700x64xf32>, tensor<700x1xi64>) -> tensor<100x64xf32>
    ```
  }];
  let arguments = (ins Stow_NumberTensor:$x, Stow_NumberTensor:$updates, Stow_IntTensor:$indices,
                       I64Attr:$axis);
  let results = (outs Stow_NumberTensor:$y);
}

def Stow_ScatterMulOp : Stow_InferredOp<"scatter_mul", [Stow_Full, Stow_HasGradient]> {
  let summary = "Products along a dimension by index";
  let description = [{
    What is there times all that arrives: `y[.., indices[.., i, ..], ..]` is the product of x there and of
    all `updates[.., i, ..]` whose index names the place. Indices, shapes and C1 to C4 are those of
    scatter_max.
    ```mlir
    %y = stow.scatter_mul %x, %u, %i {axis = 0 : i64}
        : (tensor<100x64xf32>, tensor<700x64xf32>, tensor<700x1xi64>) -> tensor<100x64xf32>
    ```
  }];
  let arguments = (ins Stow_NumberTensor:$x, Stow_NumberTensor:$updates, Stow_IntTensor:$indices,
                       I64Attr:$axis);
  let results = (outs Stow_NumberTensor:$y);
}

#endif // STOW_SCATTER_OPS_TD
