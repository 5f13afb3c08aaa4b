// Constants, views and data movement.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowShapeOps.h.inc"
