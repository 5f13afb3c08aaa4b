// The op of a batch normalization's statistics.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowStatisticsOps.h.inc"
