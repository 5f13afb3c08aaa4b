// Reductions by index.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowScatterOps.h.inc"
