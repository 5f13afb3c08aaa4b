// What is generated for the second half of the elementwise ops; StowElementwiseOps.cpp has the first half and what is written by hand.
#include "ir/StowElementwiseOps.h"

#define GET_OP_DEFS_1
#include "ir/StowElementwiseOps.cpp.inc"
