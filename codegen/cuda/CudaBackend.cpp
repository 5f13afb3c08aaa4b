#include "codegen/cuda/CudaBackend.h"

#include "codegen/cuda/CudaTarget.h"
#include "codegen/cuda/DeviceObjects.h"
#include "codegen/cuda/NvvmCode.h"
#include "codegen/host/HostBackend.h"
#include "codegen/host/ObjectFile.h"
#include "codegen/host/ProgramBuilder.h"
#include "runtime/base/Error.h"

#include <filesystem>

using namespace mlir;

namespace stow::cuda {
namespace {

class CudaBackend : public Backend {
public:
  explicit CudaBackend(const BackendOptions &options)
      : chip(requireChip(options.device)),
        answers(chip, options.tf32 ? F32Products::Tf32 : F32Products::Exact, options.cudnnFolder) {}

  const Target &target() const override { return answers; }

  std::string processor() const override { return chip.name; }

  std::string dataSheet() const override { return chip.dataSheet; }

  OutsideArena outsideArena() const override {
    if (chip.fixed.empty())
      return {std::nullopt, "context, modules and handles: not measured on " + chip.name +
                                "; --outside=SIZE states it"};
    const FixedPart &part = chip.fixed.front();
    return {part.bytes, "context, modules and handles, driver " + part.driver + ": " + part.source};
  }

  FailureOr<BuiltProgram> build(ModuleOp module) const override {
    auto built = host::buildProgram(
        module, answers, "cuda.", KernelTarget::Device,
        [&](Operation *op, Command &command) { return answers.completeCommand(op, command); });
    if (failed(built))
      return failure();
    built->program.target = "cuda:" + chip.name;
    built->program.kernels = built->kernels->symbols().vec();
    return built;
  }

  FailureOr<LinkInput> writeObjects(BuiltProgram &built, ProgramForm form,
                                    const std::string &runtime,
                                    const TemporaryFolder &folder) const override {
    NvvmOptions options;
    options.chip = chip.architecture;
    options.toolkit = toolkitFolder();
    if (failed(compileToNvvm(built.kernels->module(), options)))
      return failure();
    const std::string blob = folder.file("device.o");
    writeBlobObject("stow_device_code", packKernels(built.kernels->module(), folder), blob);
    // What is left for the host has no kernels.
    KernelModule none(built.kernels->module().getContext());
    auto input = host::writeProgram(none, built, form, runtime, {}, folder);
    if (succeeded(input))
      input->objects.insert(input->objects.begin(), blob);
    return input;
  }

  std::unique_ptr<LoadedCode> load(BuiltProgram &) const override {
    throw Error::badInput("kernels for cuda:" + chip.name +
                          " are not measured by the compiler; --profile takes --target=host");
  }

private:
  /// The CUDA toolkit that has libdevice, for kernels with sines and powers; empty without one.
  static std::string toolkitFolder() {
    const std::string usual = "/usr/local/cuda";
    return std::filesystem::exists(usual + "/nvvm/libdevice/libdevice.10.bc") ? usual : "";
  }

  const Chip chip;
  const CudaTarget answers;
};

} // namespace

std::unique_ptr<Backend> createCudaBackend(const BackendOptions &options) {
  return std::make_unique<CudaBackend>(options);
}

} // namespace stow::cuda
