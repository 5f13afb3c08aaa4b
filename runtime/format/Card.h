// The memory that a step is to fit: a GPU's, or a machine's.
#pragma once

#include "runtime/base/Bytes.h"

#include <string>

namespace stow {

/// What others take of it are estimates (docs/memory-budget.md#does-it-fit-the-card).
struct Card {
  std::string name;       ///< "rtx4090"; "card" where only its size is known
  Bytes bytes = 0;        ///< all of it, as its driver reports it
  Bytes systemBytes = 0;  ///< what others take of it: a desktop, an operating system
  Bytes processBytes = 0; ///< what a process takes beside its arena, where its plan does not know
};

} // namespace stow
