// From kernels to object files: machine code and data.
#pragma once

#include "runtime/base/InstructionSet.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// The processor to compile for: "native", or a name LLVM knows, e.g. "x86-64-v3". Code has the instructions
/// of its instruction set alone, so that it runs wherever that is there, scheduled for the processor.
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

/// The largest instruction set that a processor which targetCpus() lists has; of "native" what this process
/// computes with. Throws Error(BadInput) where it has less than oneDNN needs.
InstructionSet instructionSetOf(const HostCpu &cpu);

/// The processors that code can be generated for, by LLVM's names, in alphabetical order.
std::vector<std::string> targetCpus();

} // namespace stow
