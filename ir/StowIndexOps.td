// Reading and adding by index, steps through a tensor, order and running sums.
#ifndef STOW_INDEX_OPS_TD
#define STOW_INDEX_OPS_TD

include "ir/StowBase.td"

def Stow_TakeAlongOp : Stow_InferredOp<"take_along", [Stow_Same, Stow_HasGradient]> {
  let summary = "Elements along a dimension by index";
  let description = [{
    `y[.., i, ..] = x[.., indices[.., i, ..], ..]` where the index stands in dimension `axis`; along the
    others the indices have x's extent or 1, which repeats them (NumPy's take_along_axis). An index
    below 0 counts from the end. One outside [-extent, extent) gives NaN (0 of an integer, false):
    nothing outside x is read. C1: axis inside the rank; C2: the indices have x's rank, and outside
    the axis x's extents or 1.
    ```mlir
    %y = stow.take_along %x, %indices {axis = 1 : i64}
        : (tensor<4x197x768xf32>, tensor<1x2x1xi32>) -> tensor<4x2x768xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x, Stow_IntTensor:$indices, I64Attr:$axis);
  let results = (outs Stow_Tensor:$y);
}

def Stow_ScatterAlongOp : Stow_InferredOp<"scatter_along", [Stow_HasGradient, Stow_Full]> {
  let summary = "Sums along a dimension by index";
  let description = [{
    The gradient of take_along: y is 0 but for `y[.., indices[.., i, ..], ..] += updates[.., i, ..]`,
    added in rising order of i, so that the bits do not depend on threads. Indices outside
    [-extent, extent) are left out. C1, C2 as for take_along, with the updates as x; C3: the indices
    have the updates' extent along the axis; C4: `extent`, y's along the axis, is positive.
    ```mlir
    %d = stow.scatter_along %dy, %indices {axis = 1 : i64, extent = 197 : i64}
        : (tensor<4x2x768xf32>, tensor<1x2x1xi32>) -> tensor<4x197x768xf32>
    ```
  }];
  let arguments = (ins Stow_NumberTensor:$updates, Stow_IntTensor:$indices, I64Attr:$axis,
                       I64Attr:$extent);
  let results = (outs Stow_NumberTensor:$y);
}

def Stow_StridedSliceOp : Stow_InferredOp<"strided_slice", [Stow_Same, Stow_HasGradient]> {
  let summary = "Every n-th element of a box";
  let description = [{
    `y[i] = x[starts + i * steps]`; negative steps walk backwards. C1: one start, size and step per
    dimension, no step is 0, sizes are positive, and every element lies inside x.
    ```mlir
    %y = stow.strided_slice %x
        {starts = array<i64: 0, 7>, sizes = array<i64: 4, 8>, steps = array<i64: 2, -1>}
        : (tensor<8x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$sizes,
                       DenseI64ArrayAttr:$steps);
  let results = (outs Stow_Tensor:$y);
}

def Stow_StridedPadOp : Stow_InferredOp<"strided_pad", [Stow_Same, Stow_HasGradient]> {
  let summary = "Put a tensor's elements apart, zeros between";
  let description = [{
    The gradient of strided_slice: `y[starts + i * steps] = x[i]` and 0 elsewhere, in a tensor of
    extents `shape`. C1 as there, of y.
    ```mlir
    %dx = stow.strided_pad %dy
        {starts = array<i64: 0, 7>, steps = array<i64: 2, -1>, shape = array<i64: 8, 8>}
        : (tensor<4x8xf32>) -> tensor<8x8xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps,
                       DenseI64ArrayAttr:$shape);
  let results = (outs Stow_Tensor:$y);
}

def Stow_TopKOp : Stow_InferredOp<"top_k", [Stow_Same, Stow_HasGradient]> {
  let summary = "The largest elements along a dimension, and where they lie";
  let description = [{
    The `k` largest (without `largest`: smallest) elements along `axis` in falling (rising) order, and
    their positions; of equal ones the first comes first. NaN is where it would not move another one.
    With k = 1 the positions are arg max. C1: axis inside the rank, k in [1, extent].
    ```mlir
    %values, %indices = stow.top_k %x {axis = 1 : i64, k = 2 : i64, largest = true}
        : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
    ```
  }];
  let arguments = (ins Stow_NumberTensor:$x, I64Attr:$axis, I64Attr:$k, BoolAttr:$largest);
  let results = (outs Stow_NumberTensor:$values, Stow_IntTensor:$indices);
}

def Stow_CumSumOp : Stow_InferredOp<"cumsum", [Stow_HasGradient, Stow_Full]> {
  let summary = "Running sums along a dimension";
  let description = [{
    `y[i]` is the sum of `x[j]` for j <= i along `axis`; with `exclusive` for j < i; with `reverse` for
    j >= i, or j > i. C1: axis inside the rank.
    ```mlir
    %y = stow.cumsum %x {axis = 1 : i64, exclusive = false, reverse = false}
        : (tensor<4x8xi64>) -> tensor<4x8xi64>
    ```
  }];
  let arguments = (ins Stow_NumberTensor:$x, I64Attr:$axis, BoolAttr:$exclusive, BoolAttr:$reverse);
  let results = (outs Stow_NumberTensor:$y);
}

#endif // STOW_INDEX_OPS_TD
