// The program's kernels on a GPU.
#pragma once

#include "runtime/cuda/Driver.h"

#include <cstdint>
#include <span>
#include <string>

namespace stow::cuda {

std::string nameOfDevice(const Driver &driver, int device);
/// 90: compute capability 9.0.
uint32_t architectureOf(const Driver &driver, int device);

/// Loads what `code` (runtime/format/DeviceCode.h) holds for `device`: a cubin of its architecture, or PTX
/// that the driver translates. Throws Error(BadInput) naming both sides where there is neither.
Module loadKernels(const Driver &driver, int device, const std::string &deviceName,
                   std::span<const char> code);

/// Allows launches of `function`, which is `what`, that give a block `bytes` of shared memory, and returns these. Throws
/// Error(BadInput) where the GPU gives fewer.
unsigned allowShared(const Driver &driver, int device, Function function, int64_t bytes,
                     const std::string &what);

} // namespace stow::cuda
