#include "codegen/program/ProgramFiles.h"

using namespace mlir;

namespace stow {

FailureOr<LinkInput> writeProgram(KernelModule &kernels, const BuiltProgram &built,
                                  ProgramForm form, const std::string &runtime, const HostCpu &cpu,
                                  const TemporaryFolder &folder) {
  const std::string program = folder.file("program.o"), constants = folder.file("constants.o");
  ProgramData data{kernels.symbols().vec(), toJson(built.program)};
  if (failed(emitProgramObject(kernels.module(), data, cpu, program)))
    return failure();
  writeBlobObject("stow_constants", {built.constants.data(), built.constants.size()}, constants);
  LinkInput input;
  input.objects = {program, constants, runtime};
  input.libraries = {"-ldnnl", "-lz", "-lstdc++", "-lm"};
  if (form == ProgramForm::SharedLibrary) {
    input.shared = true;
    input.entry = "stowage_abi_version";
    input.visible = "stowage_*";
  } else { // oneDNN finds the program's thread pool by these (runtime/base/Parallel.h)
    input.exported = {"GOMP_*", "omp_*"};
  }
  return input;
}

} // namespace stow
