// Convolution and matrix multiplication.
#ifndef STOW_LINEAR_OPS_TD
#define STOW_LINEAR_OPS_TD

include "ir/StowBase.td"

def Stow_Conv2dOp : Stow_Op<"conv2d",
    [Stow_Multiplies, Stow_WalksImages, Stow_Low, Stow_HasWidePositions, InferTypeOpAdaptorWithIsCompatible, Stow_HasGradient, Stow_HasFlops]> {
  let summary = "Convolution over two spatial dimensions, or one to three";
  let description = [{
    `x` [N,C,H,W], `weight` [O,C/groups,kh,kw], optional `bias` [O] -> [N,O,H',W'] with
    `H' = (H + top + bottom - dilation * (kh - 1) - 1) / stride + 1`. `pads` are top, left, bottom,
    right; a dilation of 1 is dense. One and three spatial dimensions likewise: the pads before each
    dimension, then those after. C1: C and O divide by groups; C2: strides and dilations positive,
    pads not negative; C3: the window fits.
    ```mlir
    %y = stow.conv2d %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 3, 3, 3, 3>,
        dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<8x3x224x224xf32>, tensor<64x3x7x7xf32>) -> tensor<8x64x112x112xf32>
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$x, Stow_FloatTensor:$weight,
                        Optional<Stow_FloatTensor>:$bias), Stow_ConvAttributes);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_Conv2dGradInputOp : Stow_Op<"conv2d_grad_input",
    [Stow_Multiplies, Stow_WalksImages, Stow_Low, Stow_HasGradient, Stow_HasFlops]> {
  let summary = "Gradient of conv2d with respect to its input; transposed convolution";
  let description = [{
    In the model form it is a transposed convolution of `dy`, whose gradients are a convolution and
    the weight gradient of one.
    ```mlir
    %dx = stow.conv2d_grad_input %dy, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32>
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$dy, Stow_FloatTensor:$weight), Stow_ConvAttributes);
  let results = (outs Stow_FloatTensor:$dx);
  let hasVerifier = 1;
}

def Stow_Conv2dGradWeightOp : Stow_Op<"conv2d_grad_weight",
    [Stow_OfTraining, Stow_Multiplies, Stow_WalksImages, Stow_Low, Stow_HasFlops]> {
  let summary = "Gradient of conv2d with respect to its weight";
  let description = [{
    ```mlir
    %dw = stow.conv2d_grad_weight %x, %dy {strides = array<i64: 1, 1>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<8x64x56x56xf32>, tensor<8x64x56x56xf32>) -> tensor<64x64x3x3xf32>
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$x, Stow_FloatTensor:$dy), Stow_ConvAttributes);
  let results = (outs Stow_FloatTensor:$dweight);
  let hasVerifier = 1;
}

def Stow_MatmulOp : Stow_Op<"matmul",
    [Stow_Multiplies, Stow_WalksMatrices, Stow_Low, Stow_HasWidePositions, InferTypeOpAdaptorWithIsCompatible, Stow_HasGradient, Stow_HasFlops]> {
  let summary = "Matrix multiplication";
  let description = [{
    `a` [..., M, K] times `b` [..., K, N], either transposed in its last two dimensions when its flag
    says so; leading dimensions broadcast. The optional `bias` [N] is added to every row. C1: the
    inner extents agree; C2: leading dimensions broadcast.
    ```mlir
    %y = stow.matmul %x, %w, %b {transpose_a = false, transpose_b = true}
        : (tensor<8x512xf32>, tensor<1000x512xf32>, tensor<1000xf32>) -> tensor<8x1000xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$a, Stow_FloatTensor:$b, Optional<Stow_FloatTensor>:$bias,
                       BoolAttr:$transpose_a, BoolAttr:$transpose_b);
  let results = (outs Stow_FloatTensor:$y);
}

#endif // STOW_LINEAR_OPS_TD
