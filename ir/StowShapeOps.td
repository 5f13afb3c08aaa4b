// Constants, views and data movement.
#ifndef STOW_SHAPE_OPS_TD
#define STOW_SHAPE_OPS_TD

include "ir/StowBase.td"

def Stow_ConstantOp : Stow_Op<"constant", [Stow_WalksApart, ConstantLike, InferTypeOpAdaptor]> {
  let summary = "A tensor known at compile time";
  let description = [{
    Splats fold into the kernels that read them; other constants become unsaved state.
    ```mlir
    %c = stow.constant dense<1.0> : tensor<4xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Stow_Tensor:$y);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def Stow_ReshapeOp : Stow_Op<"reshape",
    [Stow_WalksApart, Stow_Same, Stow_HasGradient,
     DeclareOpInterfaceMethods<Stow_AliasInterface, ["getSharings", "getViewOfPart"]>]> {
  let summary = "View storage under another shape";
  let description = [{
    C1: same element count and element type. Once layouts are assigned, operand and result describe
    the same order of elements in memory (not always the row-major one), so it never runs. Flatten, squeeze and unsqueeze are
    reshapes.
    ```mlir
    %y = stow.reshape %x : (tensor<8x512x1x1xf32>) -> tensor<8x512xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x);
  let results = (outs Stow_Tensor:$y);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Stow_TransposeOp : Stow_InferredOp<"transpose",
    [Stow_WalksApart, Stow_Same, Stow_HasGradient, Stow_Shares]> {
  let summary = "Permute dimensions";
  let description = [{
    Dimension i of y is dimension `permutation[i]` of x: a copy, or a view that never runs where the
    layouts of both describe the same bytes (NCHW stored channels last is NHWC stored row-major).
    C1: a permutation of x's dimensions.
    ```mlir
    %y = stow.transpose %x {permutation = array<i64: 0, 2, 1>}
        : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs Stow_Tensor:$y);
  let hasFolder = 1;
}

def Stow_ReorderOp : Stow_Op<"reorder", [Stow_Same]> {
  let summary = "Copy into another layout";
  let description = [{
    Same logical tensor, other encoding: inserted by layout assignment, planned like any op.
    ```mlir
    %y = stow.reorder %x : (tensor<8x3x32x32xf32>) -> tensor<8x3x32x32xf32, #stow.layout<"0,2,3,1">>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x);
  let results = (outs Stow_Tensor:$y);
  let hasVerifier = 1;
}

def Stow_ConcatOp : Stow_InferredOp<"concat",
    [Stow_Same, Stow_HasGradient, Stow_Shares,
     DeclareOpInterfaceMethods<Stow_CostInterface, ["getFlops", "getBytesMoved"]>]> {
  let summary = "Join tensors along a dimension";
  let description = [{
    `stow.inside` lists the inputs that are produced where they belong in the result
    (stow-place-inside); the others are copied. Where it lists all, nothing runs.
    C1: all shapes agree outside `axis`.
    ```mlir
    %y = stow.concat %a, %b {axis = 1 : i64}
        : (tensor<8x64x7x7xf32>, tensor<8x32x7x7xf32>) -> tensor<8x96x7x7xf32>
    ```
  }];
  let arguments = (ins Variadic<Stow_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs Stow_Tensor:$y);
  let extraClassDeclaration = [{
    /// Where input `input` begins in the result.
    ::llvm::SmallVector<int64_t> getStartsOf(unsigned input);
    /// True for inputs that lie in the result already.
    bool isInside(unsigned input);
  }];
}

def Stow_SliceOp : Stow_InferredOp<"slice",
    [Stow_Same, Stow_HasGradient, Stow_Shares]> {
  let summary = "A box of a tensor";
  let description = [{
    `y[i] = x[i + starts]` for a box of `sizes` elements: a copy, or where `stow.inside` lists y (from
    stow-place-inside) a view of x. C1: the box lies inside x.
    ```mlir
    %y = stow.slice %x {starts = array<i64: 0, 64>, sizes = array<i64: 8, 32>}
        : (tensor<8x96xf32>) -> tensor<8x32xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$sizes);
  let results = (outs Stow_Tensor:$y);
}

def Stow_PadOp : Stow_InferredOp<"pad", [Stow_Same, Stow_HasGradient]> {
  let summary = "Surround a tensor with a constant";
  let description = [{
    `before` and `after` elements of `value` are added along each dimension. C1: none negative.
    ```mlir
    %y = stow.pad %x {before = array<i64: 0, 1>, after = array<i64: 0, 1>, value = 0.0 : f64}
        : (tensor<8x6xf32>) -> tensor<8x8xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x, DenseI64ArrayAttr:$before, DenseI64ArrayAttr:$after,
                       F64Attr:$value);
  let results = (outs Stow_Tensor:$y);
}

def Stow_BroadcastToOp : Stow_Op<"broadcast_to", [Stow_IsElementwise, Stow_HasGradient]> {
  let summary = "Repeat a tensor to a larger shape";
  let description = [{
    C1: x broadcasts to y's shape by NumPy's rule.
    ```mlir
    %y = stow.broadcast_to %x : (tensor<1x64x1x1xf32>) -> tensor<8x64x7x7xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x);
  let results = (outs Stow_Tensor:$y);
  let hasVerifier = 1;
}

#endif // STOW_SHAPE_OPS_TD
