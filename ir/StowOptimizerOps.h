// Updates of optimizers.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowOptimizerOps.h.inc"
