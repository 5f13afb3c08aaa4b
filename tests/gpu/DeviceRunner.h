// Generated kernels as PTX, for tests on the simulated device.
#pragma once

#include "codegen/kernels/Kernels.h"

namespace stow {

/// Bytes of a tensor as it is stored; an element of type i1 takes one.
uint64_t storedBytes(mlir::Type type);

/// PTX of a device module's kernels for "sm_80" and such. Throws std::runtime_error.
std::string compileToPtx(KernelModule &kernels, const std::string &chip);

} // namespace stow
