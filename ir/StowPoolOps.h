// Pooling and its gradients.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowPoolOps.h.inc"
