// All ops of the dialect, those of groups with a header of their own as well: for the reference.
#ifndef STOW_ALL_OPS_TD
#define STOW_ALL_OPS_TD

include "ir/StowAttentionOps.td"
include "ir/StowBitwiseOps.td"
include "ir/StowDetachOps.td"
include "ir/StowFunctionOps.td"
include "ir/StowNormPoolOps.td"
include "ir/StowOps.td"
include "ir/StowScatterOps.td"
include "ir/StowStatisticsOps.td"

#endif // STOW_ALL_OPS_TD
