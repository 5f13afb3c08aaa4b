// Arithmetic on bits.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowBitwiseOps.h.inc"
