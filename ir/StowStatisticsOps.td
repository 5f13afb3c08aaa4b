// The statistics of a batch normalization whose elements a kernel normalizes.
#ifndef STOW_STATISTICS_OPS_TD
#define STOW_STATISTICS_OPS_TD

include "ir/StowBase.td"

def Stow_BatchNormStatisticsOp : Stow_Op<"batch_norm_statistics", [Stow_OfTraining, Stow_HasFlops]> {
  let summary = "What a batch is normalized with, per channel";
  let description = [{
    Mean and variance of x as batch_norm_training has them, and `slope = scale / sqrt(variance +
    epsilon)` with its bits, made of the variance before that is rounded. `(x - mean) * slope + bias`,
    the product rounded together with the sum, is what batch_norm_training returns. x is read once and
    nothing of its size is written. C1: x has rank 2 or more; C2: the four vectors have one element per
    channel.
    ```mlir
    %m, %v, %k = stow.batch_norm_statistics %x, %s {epsilon = 1.0e-5 : f64}
        : (tensor<8x64x56x56xf32>, tensor<64xf32>)
        -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_FloatTensor:$scale, F64Attr:$epsilon);
  let results = (outs Stow_FloatTensor:$mean, Stow_FloatTensor:$variance, Stow_FloatTensor:$slope);
  let hasVerifier = 1;
}

#endif // STOW_STATISTICS_OPS_TD
