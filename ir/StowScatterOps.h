// Reductions by index. Include this where they are used; ir/Stow.h has the rest of the dialect.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowScatterOps.h.inc"
