// Pooling.
#ifndef STOW_POOL_OPS_TD
#define STOW_POOL_OPS_TD

include "ir/StowBase.td"

defvar Stow_PoolAttributes = (ins DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                              DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);

def Stow_MaxPoolOp : Stow_Op<"max_pool",
    [Stow_WalksImages, InferTypeOpAdaptorWithIsCompatible]> {
  let summary = "Max pooling";
  let description = [{
    `x` [N,C,H,W] -> [N,C,H',W'], windows as in conv2d, over one to three spatial dimensions; padding
    never wins. The training graph uses max_pool_training. C1: strides and dilations positive, pads not negative and smaller than the
    window; C2: the window fits.
    ```mlir
    %y = stow.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<8x64x112x112xf32>) -> tensor<8x64x56x56xf32>
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$x), Stow_PoolAttributes);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_MaxPoolTrainingOp : Stow_Op<"max_pool_training",
    [Stow_OfTraining, Stow_WalksImages, Stow_HasGradient]> {
  let summary = "Max pooling that also returns what its gradient reads";
  let description = [{
    `saved` tells where each maximum lay, in whatever form the device's gradient wants: its type is
    the device's answer (`Target::savedType`), and only max_pool_grad reads it. C1: y is what max_pool
    gives.
    ```mlir
    %y, %i = stow.max_pool_training %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<8x64x112x112xf32>) -> (tensor<8x64x56x56xf32>, tensor<8x64x56x56xi8>)
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$x), Stow_PoolAttributes);
  let results = (outs Stow_FloatTensor:$y, Stow_Tensor:$saved);
  let hasVerifier = 1;
}

def Stow_MaxPoolGradOp : Stow_Op<"max_pool_grad", [Stow_OfTraining, Stow_WalksImages]> {
  let summary = "Gradient of max pooling from what it saved";
  let description = [{
    ```mlir
    %dx = stow.max_pool_grad %dy, %i {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<8x64x56x56xf32>, tensor<8x64x56x56xi8>) -> tensor<8x64x112x112xf32>
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$dy, Stow_Tensor:$saved), Stow_PoolAttributes);
  let results = (outs Stow_FloatTensor:$dx);
  let hasVerifier = 1;
}

def Stow_AvgPoolOp : Stow_Op<"avg_pool",
    [Stow_WalksImages, InferTypeOpAdaptorWithIsCompatible, Stow_HasGradient]> {
  let summary = "Average pooling";
  let description = [{
    Divides by the window's size, or with `count_include_pad = false` by the elements of it that lie
    inside x. C1, C2 as max_pool; dilations are 1.
    ```mlir
    %y = stow.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false}
        : (tensor<8x64x8x8xf32>) -> tensor<8x64x4x4xf32>
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$x), Stow_PoolAttributes,
                       (ins BoolAttr:$count_include_pad));
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_AvgPoolGradOp : Stow_Op<"avg_pool_grad", [Stow_OfTraining, Stow_WalksImages]> {
  let summary = "Gradient of average pooling";
  let description = [{
    ```mlir
    %dx = stow.avg_pool_grad %dy {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false}
        : (tensor<8x64x4x4xf32>) -> tensor<8x64x8x8xf32>
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$dy), Stow_PoolAttributes,
                       (ins BoolAttr:$count_include_pad));
  let results = (outs Stow_FloatTensor:$dx);
  let hasVerifier = 1;
}

#endif // STOW_POOL_OPS_TD
