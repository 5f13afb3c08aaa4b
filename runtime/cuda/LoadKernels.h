// The program's kernels on a GPU.
#pragma once

#include "runtime/cuda/Driver.h"

#include <span>

namespace stow::cuda {

/// Loads what `code` (runtime/format/DeviceCode.h) holds for `device`: a cubin of its architecture, or PTX
/// that the driver translates. Throws Error(BadInput) naming both sides where there is neither.
Module loadKernels(const Driver &driver, int device, const std::string &deviceName,
                   std::span<const char> code);

} // namespace stow::cuda
