// Resampling and rearranging of dimensions, sampling at computed places.
#ifndef STOW_RESAMPLE_OPS_TD
#define STOW_RESAMPLE_OPS_TD

include "ir/StowBase.td"

def Stow_ResampleOp : Stow_InferredOp<"resample", [Stow_HasGradient, Stow_HasFlops]> {
  let summary = "Weighted sums of elements along dimensions";
  let description = [{
    Along each of `axes`, element i of y is the sum over k in [starts[i], starts[i + 1]) of
    `weights[k]` times element `sources[k]` of x: a product with a sparse matrix per dimension.
    Interpolation (nearest, linear, cubic), padding by reflection, by the edge or around, and steps
    other than 1 are of this form. `extents` are y's extents along `axes`; `starts` has, for one axis
    after the other, extent + 1 positions in `sources`. The gradient is the same op with every matrix
    transposed: nothing is saved. Sums run in the order of `sources`.
    C1: axes ascend and lie inside x's rank; C2: extents are positive, starts ascend from 0 to the
    number of sources, one list continuing the last, and there is one weight per source; C3: sources
    lie inside x.
    ```mlir
    %y = stow.resample %x {axes = array<i64: 3>, extents = array<i64: 4>,
        starts = array<i64: 0, 1, 2, 3, 4>, sources = array<i64: 0, 0, 1, 1>,
        weights = array<f64: 1.0, 1.0, 1.0, 1.0>}
        : (tensor<8x64x2x2xf32>) -> tensor<8x64x2x4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, DenseI64ArrayAttr:$axes, DenseI64ArrayAttr:$extents,
                       DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$sources,
                       DenseF64ArrayAttr:$weights);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_RearrangeOp : Stow_Op<"rearrange", [Stow_Same, Stow_HasGradient]> {
  let summary = "Split dimensions, permute the parts and join them";
  let description = [{
    x's dimensions are split into `factors`, outermost first; factor i of y is factor
    `permutation[i]` of x, and neighbours join to y's dimensions. One copy does what a reshape, a
    transpose and a reshape would, in any layout: depth to space, space to depth, channel shuffles.
    C1: factors of x in order multiply to its extents; C2: a permutation of the factors; C3: the
    permuted factors in order multiply to y's extents, of x's element type.
    ```mlir
    %y = stow.rearrange %x {factors = array<i64: 8, 2, 2, 16, 7, 7>,
        permutation = array<i64: 0, 3, 4, 1, 5, 2>}
        : (tensor<8x64x7x7xf32>) -> tensor<8x16x14x14xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x, DenseI64ArrayAttr:$factors,
                       DenseI64ArrayAttr:$permutation);
  let results = (outs Stow_Tensor:$y);
  let hasVerifier = 1;
}

def Stow_GridSampleOp : Stow_InferredOp<"grid_sample",
    [Stow_WalksApart, Stow_HasWidePositions, Stow_HasGradient, Stow_HasFlops]> {
  let summary = "Elements of images at computed places";
  let description = [{
    y holds, for every place that `grid` names and every channel, what the image x[n, c] is there:
    PyTorch's grid_sample. x is [N, C, spatial...]; the grid is [N, places..., coordinates], the
    coordinate of the innermost spatial dimension first; y is [N, C, places...]. Coordinates -1 and 1
    are the centres of the first and last elements with `align_corners`, else the edges of the image.
    With `mode` "linear" an element of y is a weighted sum of the 2 neighbours in each dimension, with
    "nearest" the nearest element, halves going to the even one. Where a place lies outside x,
    `padding` "zeros" takes 0 for the elements there, "border" the place moved to the nearest element
    of x, "reflection" the place reflected at the borders (at the centres of the outer elements with
    `align_corners`). A coordinate that is no number gives NaN.
    C1: x has rank 3 to 5; C2: the grid has x's rank and first extent, and one coordinate per spatial
    dimension; C3: `mode` and `padding` are of those above.
    ```mlir
    %y = stow.grid_sample %x, %grid {mode = "linear", padding = "zeros", align_corners = false}
        : (tensor<8x3x28x28xf32>, tensor<8x14x14x2xf32>) -> tensor<8x3x14x14xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$grid, StrAttr:$mode, StrAttr:$padding,
                       BoolAttr:$align_corners);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_GridSampleGradInputOp : Stow_InferredOp<"grid_sample_grad_input",
    [Stow_OfTraining, Stow_WalksApart, Stow_Full, Stow_HasWidePositions, Stow_HasFlops]> {
  let summary = "Gradient of grid_sample for its images";
  let description = [{
    Every element of `dy`, times its weights, is added to the elements of dx that it was made of. dx
    has the spatial `extents`. The sums of an image run in the order of the places, so that the bits
    do not depend on threads; places whose coordinates are no numbers are left out.
    C1 to C3 as for grid_sample, with dx as x; C4: dy has the places of the grid; C5: extents are
    positive.
    ```mlir
    %dx = stow.grid_sample_grad_input %dy, %grid {extents = array<i64: 28, 28>, mode = "linear",
        padding = "zeros", align_corners = false}
        : (tensor<8x3x14x14xf32>, tensor<8x14x14x2xf32>) -> tensor<8x3x28x28xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$grid, DenseI64ArrayAttr:$extents,
                       StrAttr:$mode, StrAttr:$padding, BoolAttr:$align_corners);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_GridSampleGradGridOp : Stow_InferredOp<"grid_sample_grad_grid",
    [Stow_OfTraining, Stow_WalksApart, Stow_Full, Stow_HasWidePositions, Stow_HasFlops]> {
  let summary = "Gradient of grid_sample for its grid";
  let description = [{
    The derivative of the linear mode by the coordinates, summed over the channels in their order: what
    lies between two elements changes by their difference. A place that padding has moved to the border
    does not change; one that has been reflected moves the other way. The gradient of the nearest mode
    is 0, and no op computes it.
    C1 to C3 as for grid_sample; C4: dy has x's channels and the places of the grid.
    ```mlir
    %dgrid = stow.grid_sample_grad_grid %dy, %x, %grid {padding = "zeros", align_corners = false}
        : (tensor<8x3x14x14xf32>, tensor<8x3x28x28xf32>, tensor<8x14x14x2xf32>) -> tensor<8x14x14x2xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, Stow_FloatTensor:$grid,
                       StrAttr:$padding, BoolAttr:$align_corners);
  let results = (outs Stow_FloatTensor:$dgrid);
}

#endif // STOW_RESAMPLE_OPS_TD
