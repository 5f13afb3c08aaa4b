// The program's kernels on a GPU.
#pragma once

#include "runtime/cuda/Driver.h"

#include <cstdint>
#include <span>

namespace stow::cuda {

/// 90: compute capability 9.0.
uint32_t architectureOf(const Driver &driver, int device);

/// Loads what `code` (runtime/format/DeviceCode.h) holds for `device`: a cubin of its architecture, or PTX
/// that the driver translates. Throws Error(BadInput) naming both sides where there is neither.
Module loadKernels(const Driver &driver, int device, const std::string &deviceName,
                   std::span<const char> code);

} // namespace stow::cuda
