#include "codegen/host/HostBackend.h"

#include "codegen/host/HostTarget.h"
#include "codegen/host/LoadedObject.h"
#include "codegen/host/ObjectFile.h"
#include "codegen/host/ProgramBuilder.h"
#include "runtime/host/Outside.h"

#include "llvm/TargetParser/Host.h"

using namespace mlir;

namespace stow::host {
namespace {

class HostBackend : public Backend {
public:
  explicit HostBackend(const BackendOptions &options)
      : answers(options.threads), cpu{options.cpu} {}

  const Target &target() const override { return answers; }

  std::string dataSheet() const override { return hasAvx512(cpu) ? "cpu" : "cpu-avx2"; }

  OutsideArena outsideArena() const override { return {kProcessBytes, "", kBytesPerCall}; }

  std::string processor() const override { return llvm::sys::getHostCPUName().str(); }

  FailureOr<BuiltProgram> build(ModuleOp module) const override {
    FailureOr<BuiltProgram> built = buildProgram(module, answers);
    if (succeeded(built))
      built->program.target = "host";
    return built;
  }

  FailureOr<LinkInput> writeObjects(BuiltProgram &built, ProgramForm form,
                                    const std::string &runtime,
                                    const TemporaryFolder &folder) const override {
    return writeProgram(*built.kernels, built, form, runtime, cpu, folder);
  }

  std::unique_ptr<LoadedCode> load(BuiltProgram &built) const override {
    return std::make_unique<LoadedObject>(*built.kernels, cpu);
  }

private:
  HostTarget answers;
  HostCpu cpu;
};

} // namespace

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

std::unique_ptr<Backend> createHostBackend(const BackendOptions &options) {
  return std::make_unique<HostBackend>(options);
}

} // namespace stow::host
