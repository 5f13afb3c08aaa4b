// The marks of a model: what nothing flows back through, what differs in evaluation.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowDetachOps.h.inc"
