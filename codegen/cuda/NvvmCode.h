// Device kernels to PTX or cubins.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace stow {

struct NvvmOptions {
  std::string chip = "sm_90"; ///< several with commas between: code for each
  std::string format = "isa"; ///< "isa": PTX, needs no toolkit; "bin": a cubin, needs ptxas
  std::string toolkit;        ///< CUDA toolkit; empty: PTX without libdevice
};

/// Compiles `gpu.module @kernels` of a device KernelModule: the module then holds a `gpu.binary`
/// of that name, with one object for each chip. f32 kernels need no libdevice; where f64 math does and the toolkit is missing, the
/// functions that were not found are named in the error.
mlir::LogicalResult compileToNvvm(mlir::ModuleOp module, const NvvmOptions &options);

/// Registers what compileToNvvm needs of the context.
void registerNvvmDialects(mlir::DialectRegistry &registry);

} // namespace stow
