// Elementwise functions that few models call.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowFunctionOps.h.inc"
