// All ops of the dialect.
#ifndef STOW_OPS_TD
#define STOW_OPS_TD

include "ir/StowElementwiseOps.td"
include "ir/StowEmbeddingOps.td"
include "ir/StowIndexOps.td"
include "ir/StowKernelOps.td"
include "ir/StowLinearOps.td"
include "ir/StowLossOps.td"
include "ir/StowNormOps.td"
include "ir/StowOptimizerOps.td"
include "ir/StowPoolOps.td"
include "ir/StowReduceOps.td"
include "ir/StowResampleOps.td"
include "ir/StowShapeOps.td"

#endif // STOW_OPS_TD
