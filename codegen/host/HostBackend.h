// The processor that the compiler itself runs on, or one like it.
#pragma once

#include "codegen/Backend.h"
#include "codegen/host/ObjectFile.h"

namespace stow::host {

std::unique_ptr<Backend> createHostBackend(const BackendOptions &options);

/// The object files of a program and what links them: `kernels`, which are lowered in place, run on the
/// host. Fails with a diagnostic, or throws Error.
mlir::FailureOr<LinkInput> writeProgram(KernelModule &kernels, const BuiltProgram &built,
                                        ProgramForm form, const std::string &runtime,
                                        const HostCpu &cpu, const TemporaryFolder &folder);

} // namespace stow::host
