#include "codegen/host/HostBackend.h"

#include "codegen/host/HostTarget.h"
#include "codegen/host/LoadedObject.h"
#include "codegen/host/ProductTiles.h"
#include "codegen/program/ProgramBuilder.h"
#include "codegen/program/ProgramFiles.h"
#include "ir/StowKernelOps.h"
#include "passes/memory/Passes.h"
#include "runtime/base/Error.h"
#include "runtime/format/Reduction.h"
#include "runtime/host/Arena.h"
#include "runtime/host/Instructions.h"
#include "runtime/host/Outside.h"

#include "llvm/TargetParser/Host.h"

using namespace mlir;

namespace stow::host {
namespace {

/// Limits the library of this process to the instructions of `cpu`, for which it is asked what calls take.
InstructionSet useInstructionsOf(const HostCpu &cpu) {
  const InstructionSet set = instructionSetOf(cpu);
  if (set > availableInstructions())
    throw Error::badInput("--target-cpu=" + cpu.name + " plans for " + describe(set) + ", and " +
                          describeAvailable() +
                          "; scratch and layouts are what oneDNN says, and it answers for its own "
                          "processor and lesser ones alone: plan on a machine that has it, or for "
                          "--target-cpu=" +
                          std::string(processorOf(availableInstructions())));
  useInstructions(set, "--target-cpu=" + cpu.name);
  return set;
}

class HostCommands : public CommandRules {
public:
  explicit HostCommands(const HostTarget &answers) : answers(answers) {}

  KernelTarget kernels() const override { return KernelTarget::Host; }

  FailureOr<std::optional<Command>> commandOf(Operation *op, function_ref<Bytes(Value)> offsetOf,
                                              KernelModule &kernels) const override {
    auto product = dyn_cast<ProductMapOp>(op);
    if (!product)
      return std::optional<Command>();
    FailureOr<Command> command =
        productCommand(product, *answers.formOf(product), offsetOf,
                       bytesAttr(op, kWorkspaceOffsetAttr), bytesAttr(op, kWorkspaceAttr), kernels);
    if (failed(command))
      return failure();
    return std::optional<Command>(std::move(*command));
  }

private:
  const HostTarget &answers;
};

class HostBackend : public Backend {
public:
  explicit HostBackend(const BackendOptions &options)
      : cpu{options.cpu}, used(useInstructionsOf(cpu)), answers(options.threads) {}

  const Target &target() const override { return answers; }

  std::string dataSheet() const override {
    return used >= InstructionSet::Avx512 ? "cpu" : "cpu-avx2";
  }

  std::optional<Bytes> availableMemory() const override { return host::availableMemory(); }

  /// Sums are cut by the operands' sizes (runtime/host/Parts.h), but for some of the library's code for AVX-512, in bf16 most.
  bool sumsDependOnThreads() const override { return used >= InstructionSet::Avx512; }

  std::string note() const override {
    const std::string products = answers.note();
    return "computes with " + describe(used) + ", on every processor that has it" +
           (products.empty() ? "" : "; " + products);
  }

  OutsideArena outsideArena() const override { return {kProcessBytes, "", kBytesPerCall}; }

  OutsideArena outsideOfRanks() const override { return {kRanksProcessBytes, ""}; }

  std::string processor() const override { return llvm::sys::getHostCPUName().str(); }

  FailureOr<BuiltProgram> build(ModuleOp module) const override {
    FailureOr<BuiltProgram> built = buildProgram(module, answers, HostCommands(answers));
    if (succeeded(built))
      built->program.target = "host:" + std::string(nameOf(used));
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
  HostCpu cpu;
  InstructionSet used;
  HostTarget answers;
};

} // namespace

std::string whyNot(Feature feature) {
  switch (feature) {
  case Feature::FolderMemory:
    return "";
  case Feature::HostMemory:
    return "--offload=host and auto are for GPUs; the arena of a program on the CPU is memory of "
           "the host, and what travels does so to a folder on a disk: --offload=FOLDER";
  case Feature::Epilogues:
    return "--epilogues is about the libraries of GPUs; say --target=cuda:CHIP";
  case Feature::Tf32:
    return "--tf32 is about GPUs; the host multiplies f32 values as they are";
  }
  throw Error::internal("the host has no answer about a feature");
}

std::unique_ptr<Backend> createHostBackend(const BackendOptions &options) {
  return std::make_unique<HostBackend>(options);
}

} // namespace stow::host
