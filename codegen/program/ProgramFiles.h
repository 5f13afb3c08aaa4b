// A program's object files, whatever its device: kernels of the host, the program itself, initial values.
#pragma once

#include "codegen/Backend.h"
#include "codegen/program/ObjectFile.h"

namespace stow {

/// The object files of a program and what links them: `kernels`, which are lowered in place, run on the
/// host. Fails with a diagnostic, or throws Error.
mlir::FailureOr<LinkInput> writeProgram(KernelModule &kernels, const BuiltProgram &built,
                                        ProgramForm form, const std::string &runtime,
                                        const HostCpu &cpu, const TemporaryFolder &folder);

} // namespace stow
