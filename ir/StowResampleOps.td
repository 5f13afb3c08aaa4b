// Resampling and rearranging of dimensions.
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

#endif // STOW_RESAMPLE_OPS_TD
