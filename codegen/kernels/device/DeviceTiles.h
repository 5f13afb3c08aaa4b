// Copies on a device that turn rows into columns: through tiles in shared memory, so that both sides
// are read and written along their own rows, up to 16 bytes a thread and lines of 128 bytes a time.
#pragma once

#include "codegen/kernels/Emit.h"

namespace stow {

/// Emits the tasks of a copy of `space`, whose access 0 is buffer `result` of the frame and access 1 is
/// buffer `source`, one tile each: adds to `frame.tasks`. Emits nothing and gives false where both sides
/// are contiguous along one dimension, or one of them along none, or along one of fewer than 8 elements.
bool emitTransposingCopy(KernelFrame &frame, const Space &space, unsigned source, unsigned result);

} // namespace stow
