// Tables that are read by index.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowEmbeddingOps.h.inc"
