// Folded rows on a device: see forFoldedRows (Emit.h).
#pragma once

#include "codegen/kernels/Emit.h"

namespace stow {

/// Emits tasks over the rows. `along`: threads share a row and walk its axis side by side; else rows
/// lie side by side. Both spaces are collapsed.
void forDeviceRows(KernelFrame &frame, const Space &rows, const Space &axis, bool along,
                   llvm::function_ref<void(Row &)> body);

} // namespace stow
