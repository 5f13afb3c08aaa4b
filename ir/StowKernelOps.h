// Fused kernels.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowKernelOps.h.inc"
