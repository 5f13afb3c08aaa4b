// The marks of a model: what nothing flows back through, what differs in evaluation. Include this where it is used; ir/Stow.h has the rest of
// the dialect.
#pragma once

#include "ir/Stow.h"

#define GET_OP_CLASSES
#include "ir/StowDetachOps.h.inc"
