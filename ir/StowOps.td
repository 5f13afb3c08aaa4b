// All ops of the dialect: for the reference. The build generates each group by itself.
#ifndef STOW_OPS_TD
#define STOW_OPS_TD

include "ir/StowAttentionOps.td"
include "ir/StowBitwiseOps.td"
include "ir/StowCollectiveOps.td"
include "ir/StowDetachOps.td"
include "ir/StowElementwiseOps.td"
include "ir/StowEmbeddingOps.td"
include "ir/StowFunctionOps.td"
include "ir/StowIndexOps.td"
include "ir/StowKernelOps.td"
include "ir/StowLinearOps.td"
include "ir/StowLossOps.td"
include "ir/StowNormOps.td"
include "ir/StowNormPoolOps.td"
include "ir/StowOffloadOps.td"
include "ir/StowOptimizerOps.td"
include "ir/StowPoolOps.td"
include "ir/StowQuantizeOps.td"
include "ir/StowReduceOps.td"
include "ir/StowResampleOps.td"
include "ir/StowScatterOps.td"
include "ir/StowShapeOps.td"
include "ir/StowStatisticsOps.td"

#endif // STOW_OPS_TD
