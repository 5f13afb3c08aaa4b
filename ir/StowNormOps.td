// Batch, group, layer and root-mean-square normalization, and the window sum of local response
// normalization.
#ifndef STOW_NORM_OPS_TD
#define STOW_NORM_OPS_TD

include "ir/StowBase.td"

def Stow_BatchNormOp : Stow_Op<"batch_norm",
    [Stow_WalksImages, Stow_HasWidePositions, InferTypeOpAdaptorWithIsCompatible, Stow_Shares, Stow_HasGradient]> {
  let summary = "Batch normalization with running statistics";
  let description = [{
    `y = scale * (x - mean) / sqrt(variance + epsilon) + bias` per channel (dimension 1). In the model
    form it marks a normalization whose training graph uses batch statistics (batch_norm_training)
    and updates the running ones by `running = (1 - momentum) * running + momentum * batch`, the
    variance unbiased, as PyTorch; with `frozen` the training graph uses the running ones, too, and leaves
    them as they are. In the evaluation graph it is what runs. C1: the four vectors have C elements.
    ```mlir
    %y = stow.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
        : (tensor<8x64x56x56xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
        -> tensor<8x64x56x56xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$scale, Stow_FloatTensor:$bias,
                       Stow_FloatTensor:$mean, Stow_FloatTensor:$variance, F64Attr:$epsilon,
                       F64Attr:$momentum, UnitAttr:$frozen);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_BatchNormTrainingOp : Stow_Op<"batch_norm_training",
    [Stow_OfTraining, Stow_WalksImages, Stow_HasWidePositions, InferTypeOpAdaptorWithIsCompatible, Stow_HasGradient, Stow_HasFlops]> {
  let summary = "Batch normalization with batch statistics";
  let description = [{
    Also returns the batch mean and the biased batch variance per channel, which the gradient and the
    running statistics use.
    ```mlir
    %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64}
        : (tensor<8x64x56x56xf32>, tensor<64xf32>, tensor<64xf32>)
        -> (tensor<8x64x56x56xf32>, tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$scale, Stow_FloatTensor:$bias,
                       F64Attr:$epsilon);
  let results = (outs Stow_FloatTensor:$y, Stow_FloatTensor:$mean, Stow_FloatTensor:$variance);
  let hasVerifier = 1;
}

def Stow_BatchNormGradOp : Stow_Op<"batch_norm_grad",
    [Stow_OfTraining, Stow_WalksImages, Stow_HasWidePositions, InferTypeOpAdaptorWithIsCompatible, Stow_Shares, Stow_HasFlops]> {
  let summary = "Gradient of batch_norm_training from saved statistics";
  let description = [{
    Returns the gradients of x, scale and bias; dx may overwrite dy or x.
    ```mlir
    %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %dy {epsilon = 1.0e-5 : f64}
        : (tensor<8x64x56x56xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
           tensor<8x64x56x56xf32>) -> (tensor<8x64x56x56xf32>, tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$mean, Stow_FloatTensor:$variance,
                       Stow_FloatTensor:$scale, Stow_FloatTensor:$dy, F64Attr:$epsilon);
  let results = (outs Stow_FloatTensor:$dx, Stow_FloatTensor:$dscale, Stow_FloatTensor:$dbias);
}

def Stow_ChannelMomentsOp : Stow_InferredOp<"channel_moments", [Stow_OfTraining, Stow_WalksImages, Stow_Full, Stow_HasFlops]> {
  let summary = "Mean and variance of every channel";
  let description = [{
    Over all dimensions but 1, the variance biased: the batch statistics of batch_norm_training, as a
    kernel of their own that reads x wherever it lies. C1: x has rank 2 or more.
    ```mlir
    %m, %v = stow.channel_moments %x
        : (tensor<8x64x56x56xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x);
  let results = (outs Stow_FloatTensor:$mean, Stow_FloatTensor:$variance);
}

def Stow_BatchNormScaleGradOp : Stow_InferredOp<"batch_norm_scale_grad",
    [Stow_OfTraining, Stow_WalksImages, Stow_Full, Stow_HasFlops]> {
  let summary = "Gradients of batch_norm_training with respect to scale and bias";
  let description = [{
    `dscale` is the sum of `dy * (x - mean) / sqrt(variance + epsilon)` over all dimensions but 1,
    `dbias` that of `dy`. C1: dy has x's shape; C2: mean and variance have one element per channel.
    ```mlir
    %ds, %db = stow.batch_norm_scale_grad %dy, %x, %m, %v {epsilon = 1.0e-5 : f64}
        : (tensor<8x64x56x56xf32>, tensor<8x64x56x56xf32>, tensor<64xf32>, tensor<64xf32>)
        -> (tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, Stow_FloatTensor:$mean,
                       Stow_FloatTensor:$variance, F64Attr:$epsilon);
  let results = (outs Stow_FloatTensor:$dscale, Stow_FloatTensor:$dbias);
  let hasVerifier = 1;
}

def Stow_ChannelWindowSumOp : Stow_InferredOp<"channel_window_sum", [Stow_WalksImages, Stow_HasGradient]> {
  let summary = "Sum over a window of neighbouring channels";
  let description = [{
    `y[n,c,...] = sum of x[n,j,...]` for `c - before <= j <= c + after` inside [0, C): what local
    response normalization is built from. Its gradient is the same sum with the window mirrored.
    ```mlir
    %y = stow.channel_window_sum %x {before = 2 : i64, after = 2 : i64}
        : (tensor<8x96x27x27xf32>) -> tensor<8x96x27x27xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, I64Attr:$before, I64Attr:$after);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_LayerNormOp : Stow_InferredOp<"layer_norm",
    [Stow_Full, Stow_HasGradient, Stow_Shares, Stow_HasFlops]> {
  let summary = "Layer normalization of the last dimension";
  let description = [{
    `y = scale * (x - mean) * rstd + bias` per row, a row being the last dimension: `mean` is the mean
    of the row and `rstd = 1 / sqrt(variance + epsilon)` of its biased variance. Mean and rstd are
    one number per row; with x they are all that the gradient reads. C1: x has rank 2 or more; C2:
    scale and bias are vectors as long as a row.
    ```mlir
    %y, %m, %r = stow.layer_norm %x, %s, %b {epsilon = 1.0e-5 : f64}
        : (tensor<4x128x64xf32>, tensor<64xf32>, tensor<64xf32>)
        -> (tensor<4x128x64xf32>, tensor<4x128xf32>, tensor<4x128xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$scale,
                       Optional<Stow_FloatTensor>:$bias, F64Attr:$epsilon);
  let results = (outs Stow_FloatTensor:$y, Stow_FloatTensor:$mean, Stow_FloatTensor:$rstd);
  let hasVerifier = 1;
}

def Stow_LayerNormGradOp : Stow_InferredOp<"layer_norm_grad", [Stow_OfTraining, Stow_Full, Stow_Shares, Stow_HasFlops]> {
  let summary = "Gradient of layer_norm with respect to x";
  let description = [{
    With `n = (x - mean) * rstd` and `g = dy * scale`: `dx = rstd * (g - mean(g) - n * mean(g * n))`,
    means over the row. dx may overwrite dy or x.
    ```mlir
    %dx = stow.layer_norm_grad %dy, %x, %m, %r, %s
        : (tensor<4x128x64xf32>, tensor<4x128x64xf32>, tensor<4x128xf32>, tensor<4x128xf32>,
           tensor<64xf32>) -> tensor<4x128x64xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, Stow_FloatTensor:$mean,
                       Stow_FloatTensor:$rstd, Stow_FloatTensor:$scale);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_LayerNormScaleGradOp : Stow_InferredOp<"layer_norm_scale_grad", [Stow_OfTraining, Stow_Full, Stow_HasFlops]> {
  let summary = "Gradients of layer_norm with respect to scale and bias";
  let description = [{
    `dscale` is the sum of `dy * (x - mean) * rstd` over the rows, `dbias` that of `dy`.
    ```mlir
    %ds, %db = stow.layer_norm_scale_grad %dy, %x, %m, %r
        : (tensor<4x128x64xf32>, tensor<4x128x64xf32>, tensor<4x128xf32>, tensor<4x128xf32>)
        -> (tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, Stow_FloatTensor:$mean,
                       Stow_FloatTensor:$rstd);
  let results = (outs Stow_FloatTensor:$dscale, Stow_FloatTensor:$dbias);
}

//===-- Planes: group and instance normalization ----------------------------------------------===//

def Stow_PlaneMomentsOp : Stow_InferredOp<"plane_moments",
    [Stow_WalksImages, Stow_Full, Stow_HasGradient, Stow_HasFlops]> {
  let summary = "Mean and variance of every plane";
  let description = [{
    A plane is what a sample has of a channel: all dimensions but 0 and 1. The variance is biased.
    Instance normalization takes the moments as they are, group normalization joins those of a
    group's channels, which are few numbers. C1: x has rank 3 or more.
    ```mlir
    %m, %v = stow.plane_moments %x
        : (tensor<8x64x56x56xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x);
  let results = (outs Stow_FloatTensor:$mean, Stow_FloatTensor:$variance);
}

def Stow_PlaneNormalizeOp : Stow_ElementwiseOp<"plane_normalize", [Stow_WalksImages, Stow_HasGradient]> {
  let summary = "Shift and scale every plane";
  let description = [{
    `y = (x - mean) * slope + shift`, where the three have one number per plane. The gradients of
    all three come from one pass over dy and x (plane_products). C1: mean, slope and shift are
    [N,C,1,...] of x's rank.
    ```mlir
    %y = stow.plane_normalize %x, %m, %a, %b
        : (tensor<8x64x7x7xf32>, tensor<8x64x1x1xf32>, tensor<8x64x1x1xf32>, tensor<8x64x1x1xf32>)
        -> tensor<8x64x7x7xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$mean, Stow_FloatTensor:$slope,
                       Stow_FloatTensor:$shift);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_PlaneProductsOp : Stow_InferredOp<"plane_products", [Stow_OfTraining, Stow_WalksImages, Stow_Full, Stow_HasFlops]> {
  let summary = "Sums of dy * (x - mean) and of dy over every plane";
  let description = [{
    C1: x has rank 3 or more and dy its shape; C2: mean is [N,C].
    ```mlir
    %p, %s = stow.plane_products %dy, %x, %m
        : (tensor<8x64x7x7xf32>, tensor<8x64x7x7xf32>, tensor<8x64xf32>)
        -> (tensor<8x64xf32>, tensor<8x64xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, Stow_FloatTensor:$mean);
  let results = (outs Stow_FloatTensor:$product, Stow_FloatTensor:$sum);
  let hasVerifier = 1;
}

//===-- Root mean squares ---------------------------------------------------------------------===//

def Stow_RmsNormOp : Stow_InferredOp<"rms_norm",
    [Stow_Full, Stow_HasGradient, Stow_Shares, Stow_HasFlops]> {
  let summary = "Root-mean-square normalization of the last dimension";
  let description = [{
    `y = scale * x * rstd` per row, `rstd = 1 / sqrt(mean(x * x) + epsilon)`: layer normalization
    without centring (Zhang and Sennrich, 2019). One number per row, with x, is all that the gradient
    reads. C1: x has rank 2 or more; C2: scale is a vector as long as a row.
    ```mlir
    %y, %r = stow.rms_norm %x, %s {epsilon = 1.0e-5 : f64}
        : (tensor<4x128x64xf32>, tensor<64xf32>) -> (tensor<4x128x64xf32>, tensor<4x128xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$scale, F64Attr:$epsilon);
  let results = (outs Stow_FloatTensor:$y, Stow_FloatTensor:$rstd);
  let hasVerifier = 1;
}

def Stow_RmsNormGradOp : Stow_InferredOp<"rms_norm_grad", [Stow_OfTraining, Stow_Full, Stow_Shares, Stow_HasFlops]> {
  let summary = "Gradient of rms_norm with respect to x";
  let description = [{
    With `n = x * rstd` and `g = dy * scale`: `dx = rstd * (g - n * mean(g * n))`, the mean over the
    row. dx may overwrite dy or x.
    ```mlir
    %dx = stow.rms_norm_grad %dy, %x, %r, %s
        : (tensor<4x128x64xf32>, tensor<4x128x64xf32>, tensor<4x128xf32>, tensor<64xf32>)
        -> tensor<4x128x64xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, Stow_FloatTensor:$rstd,
                       Stow_FloatTensor:$scale);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_RmsNormScaleGradOp : Stow_InferredOp<"rms_norm_scale_grad", [Stow_OfTraining, Stow_Full, Stow_HasFlops]> {
  let summary = "Gradient of rms_norm with respect to scale";
  let description = [{
    The sum of `dy * x * rstd` over the rows.
    ```mlir
    %ds = stow.rms_norm_scale_grad %dy, %x, %r
        : (tensor<4x128x64xf32>, tensor<4x128x64xf32>, tensor<4x128xf32>) -> tensor<64xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, Stow_FloatTensor:$rstd);
  let results = (outs Stow_FloatTensor:$dscale);
}

#endif // STOW_NORM_OPS_TD
