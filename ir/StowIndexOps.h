// Data movement by index.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowIndexOps.h.inc"
