// The ops of attention.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowAttentionOps.h.inc"
