// Elementwise arithmetic, comparisons and random numbers.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowElementwiseOps.h.inc"
