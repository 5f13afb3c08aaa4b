// From kernels to object files: machine code and data.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// The processor to compile for: "native", or a name LLVM knows, e.g. "x86-64-v3".
struct HostCpu {
  std::string name = "native";
};

/// How floats are rounded to bf16: by an instruction, or in integer arithmetic.
enum class Bf16Conversion { Native, Expanded };

/// Lowers the kernels of `module` (as KernelModule makes them) to the LLVM dialect, in place.
mlir::LogicalResult lowerKernelsToLlvm(mlir::ModuleOp module, Bf16Conversion bf16);

/// What the object file holds besides machine code.
struct ProgramData {
  std::vector<std::string> kernels; ///< symbols in the module, by index in stow_kernels
  std::string json;                 ///< stow_program_json
};

/// Compiles `module` (any form of kernels; it is lowered in place) and writes an ELF object that
/// defines stow_kernels, stow_kernel_count, stow_program_json and stow_program_json_size
/// (runtime/format/Program.h). Same input, same bytes. Errors are reported at the module.
mlir::LogicalResult emitProgramObject(mlir::ModuleOp module, const ProgramData &data,
                                      const HostCpu &cpu, const std::string &path);

/// Writes an ELF object that defines `symbol` and SYMBOL_size, e.g. stow_constants: the bytes go
/// straight to the file, so hundreds of MB take as long as writing them. Throws Error.
void writeBlobObject(const std::string &symbol, std::string_view bytes, const std::string &path);

/// Whether a processor that targetCpus() lists, or "native", has AVX-512's vectors of floats.
bool hasAvx512(const HostCpu &cpu);

/// The processors that code can be generated for, by LLVM's names, in alphabetical order.
std::vector<std::string> targetCpus();

} // namespace stow
