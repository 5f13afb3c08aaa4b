// What the library has answered, kept for the next call of the same form.
//
// A step has the same product in each of its layers, forward and backward, and a planner asks for each of its candidates; an answer
// about 16-bit operands takes a search for the best pieces (runtime/host/pieces/SplitMatMul.cpp). An answer depends on the operation,
// its settings, and types, shapes and layouts of its operands; not on where these lie, or on what the node is called.
#pragma once

#include "runtime/host/Library.h"

namespace stow::host {

/// queryLibrary(), which is asked once in a process for each form of a call. From any thread. Throws as that does, each time anew.
LibraryRequirements askLibrary(const Command &call, const std::vector<bool> &anyLayout,
                               int64_t threads);

} // namespace stow::host
