// Resampling.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowResampleOps.h.inc"
