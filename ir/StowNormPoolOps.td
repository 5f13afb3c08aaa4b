// Batch normalization together with the max pooling that reads it.
#ifndef STOW_NORM_POOL_OPS_TD
#define STOW_NORM_POOL_OPS_TD

include "ir/StowBase.td"

defvar Stow_NormPoolAttributes = (ins F64Attr:$epsilon, DenseI64ArrayAttr:$kernel,
                                  DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                                  DenseI64ArrayAttr:$dilations);

def Stow_BatchNormMaxPoolOp : Stow_Op<"batch_norm_max_pool", [Stow_OfTraining, Stow_HasFlops]> {
  let summary = "Max pooling of a batch normalization that is not stored";
  let description = [{
    What batch_norm_training makes of x, and max_pool_training of that, with their bits: `y`, the
    position of each maximum in its window, and the batch's statistics. The normalized x, as large as
    x, never exists. A position takes a byte; in windows of at most 16 elements it takes half a byte
    where channels are a multiple of 16: saved then has half of them. C1: y is x pooled, as max_pool has
    it, and saved has its shape, or half the channels; C2: the four vectors have one element per
    channel.
    ```mlir
    %y, %i, %m, %v = stow.batch_norm_max_pool %x, %s, %b {epsilon = 1.0e-5 : f64,
        kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>}
        : (tensor<8x64x112x112xf32>, tensor<64xf32>, tensor<64xf32>)
        -> (tensor<8x64x56x56xf32>, tensor<8x32x56x56xi8>, tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$x, Stow_FloatTensor:$scale, Stow_FloatTensor:$bias),
                       Stow_NormPoolAttributes);
  let results = (outs Stow_FloatTensor:$y, Stow_Tensor:$saved, Stow_FloatTensor:$mean,
                      Stow_FloatTensor:$variance);
  let hasVerifier = 1;
}

def Stow_BatchNormMaxPoolGradientOp : Stow_Op<"batch_norm_max_pool_gradient",
    [Stow_OfTraining, Stow_Shares, Stow_HasFlops]> {
  let summary = "Gradients of batch_norm_max_pool by x, scale and bias";
  let description = [{
    The bits of max_pool_grad and batch_norm_grad. The gradient between the two, as large as x, is
    gathered from `dy` where it is needed, for the sums of each channel and again for dx, and never
    exists whole; dx may overwrite x. C1: dy is x pooled, and saved is that of the forward; C2: vectors have one
    element per channel; C3: dx has x's shape.
    ```mlir
    %dx, %ds, %db = stow.batch_norm_max_pool_gradient %x, %m, %v, %s, %dy, %i {epsilon = 1.0e-5 : f64,
        kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>}
        : (tensor<8x64x112x112xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
           tensor<8x64x56x56xf32>, tensor<8x32x56x56xi8>)
        -> (tensor<8x64x112x112xf32>, tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$x, Stow_FloatTensor:$mean, Stow_FloatTensor:$variance,
                        Stow_FloatTensor:$scale, Stow_FloatTensor:$dy, Stow_Tensor:$saved),
                       Stow_NormPoolAttributes);
  let results = (outs Stow_FloatTensor:$dx, Stow_FloatTensor:$dscale, Stow_FloatTensor:$dbias);
  let hasVerifier = 1;
}

#endif // STOW_NORM_POOL_OPS_TD
