// The ops that the ranks of a step run together.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowCollectiveOps.h.inc"
