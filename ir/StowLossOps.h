// Losses and their gradients.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowLossOps.h.inc"
