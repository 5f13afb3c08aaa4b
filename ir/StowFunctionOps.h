// Elementwise functions that few models call. Include this where they are used; ir/Stow.h has the rest of the dialect.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowFunctionOps.h.inc"
