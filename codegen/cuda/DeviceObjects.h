// The compiled kernels of a module as one blob for the executable.
#pragma once

#include "codegen/TemporaryFolder.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace stow::cuda {

/// The assembler of the CUDA toolkit: in /usr/local/cuda/bin, else where PATH says (the Python package
/// nvidia-cuda-nvcc has one).
std::optional<std::string> findPtxas();

/// The PTX of `module` (compileToNvvm), and a cubin of each where there is ptxas, which runs for all
/// architectures at once: runtime/format/DeviceCode.h. Without ptxas a warning says so. Throws
/// Error(BadInput) with ptxas' message where it refuses the PTX.
std::string packKernels(mlir::ModuleOp module, const TemporaryFolder &folder);

} // namespace stow::cuda
