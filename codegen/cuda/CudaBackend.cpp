#include "codegen/cuda/CudaBackend.h"

#include "codegen/cuda/CudaTarget.h"
#include "codegen/cuda/DeviceObjects.h"
#include "codegen/cuda/NvvmCode.h"
#include "codegen/cuda/SplitProducts.h"
#include "codegen/program/ObjectFile.h"
#include "codegen/program/ProgramBuilder.h"
#include "codegen/program/ProgramFiles.h"
#include "runtime/base/Error.h"

#include "llvm/ADT/StringExtras.h"

#include <absl/strings/str_cat.h>

#include <filesystem>

using namespace mlir;

namespace stow::cuda {
namespace {

/// A CUDA process beside its arena where nobody has measured one of ours: out-of-memory messages of PyTorch that users have
/// published state 0.46 to 0.50 GiB beside its allocator on an RTX 4090, an A100 and an H100.
constexpr Bytes kProcessBytes = Bytes{512} << 20;

/// What NCCL takes of a GPU that it connects to others: for each connection of a channel the buffers of its three protocols, 4 MiB
/// for NCCL_BUFFSIZE (its documentation) and in all 10 MiB to receive and 2 to send, as its log of allocations has it on eight H100
/// (github.com/NVIDIA/nccl/issues/1685). A channel is part of a ring and, for large sums, of a tree up and down; there are 32 at most
/// (NCCL_MAX_CTAS).
constexpr Bytes kNcclConnectionBytes = Bytes{12} << 20;
constexpr int kNcclChannels = 32, kNcclConnections = 3;
constexpr Bytes kNcclBytes = kNcclChannels * kNcclConnections * kNcclConnectionBytes;

class CudaCommands : public CommandRules {
public:
  explicit CudaCommands(const CudaTarget &answers) : answers(answers) {}

  KernelTarget kernels() const override { return KernelTarget::Device; }

  LogicalResult complete(Operation *op, Command &command, KernelModule &kernels) const override {
    if (failed(answers.completeCommand(op, command)))
      return failure();
    return addSplitForm(op, command, kernels);
  }

private:
  const CudaTarget &answers;
};

class CudaBackend : public Backend {
public:
  explicit CudaBackend(const BackendOptions &options)
      : chips(requireChips(options.device)), name(namesOf(chips)),
        answers(chips, options.tf32 ? F32Products::Tf32 : F32Products::Exact, options.epilogues,
                options.cudnnFolder) {}

  const Target &target() const override { return answers; }

  std::string processor() const override { return name; }

  std::string dataSheet() const override { return chips.front().dataSheet; }

  std::string note() const override {
    return chips.size() == 1
               ? ""
               : "one arena for each of " + name +
                     ": a library call has the scratch that the chip takes which needs "
                     "most; --target with one of them plans for it alone";
  }

  bool gathersUpdates() const override { return true; }

  bool copiesBesideCommands() const override { return true; }

  OutsideArena outsideArena() const override {
    std::vector<Chip> unmeasured;
    for (const Chip &chip : chips)
      if (chip.fixed.empty())
        unmeasured.push_back(chip);
    if (!unmeasured.empty())
      return {std::nullopt, "context, modules and handles: not measured on " + namesOf(unmeasured) +
                                "; --outside=SIZE states it"};
    OutsideArena most{0, "context, modules and handles"};
    for (const Chip &chip : chips) {
      const FixedPart &part = chip.fixed.front();
      most.bytes = std::max(*most.bytes, part.bytes);
      most.note += (chips.size() > 1 ? ", " + chip.name : "") + ", driver " + part.driver + ": " +
                   part.source;
    }
    return most;
  }

  OutsideArena outsideOfRanks() const override {
    return {kNcclBytes,
            absl::StrCat("NCCL's buffers, at most ", kNcclChannels, " channels of ",
                         kNcclConnections, " connections with ", kNcclConnectionBytes, " bytes")};
  }

  std::optional<Card> card() const override {
    std::optional<Card> least;
    for (const Chip &chip : chips) {
      if (!chip.isNamed())
        return std::nullopt;
      const Card card{chip.name, chip.memoryBytes, chip.desktopBytes,
                      chip.fixed.empty() ? kProcessBytes : chip.fixed.front().bytes};
      if (!least || card.bytes - card.systemBytes < least->bytes - least->systemBytes)
        least = card;
    }
    return least;
  }

  FailureOr<BuiltProgram> build(ModuleOp module) const override {
    auto built = buildProgram(module, answers, CudaCommands(answers));
    if (failed(built))
      return failure();
    built->program.target = "cuda:" + name;
    built->program.kernels = built->kernels->symbols().vec();
    return built;
  }

  FailureOr<LinkInput> writeObjects(BuiltProgram &built, ProgramForm form,
                                    const std::string &runtime,
                                    const TemporaryFolder &folder) const override {
    NvvmOptions options;
    options.chip = architecturesOf(chips);
    options.toolkit = toolkitFolder();
    if (failed(compileToNvvm(built.kernels->module(), options)))
      return failure();
    const std::string blob = folder.file("device.o");
    writeBlobObject("stow_device_code", packKernels(built.kernels->module(), folder), blob);
    // What is left for the host has no kernels.
    KernelModule none(built.kernels->module().getContext());
    auto input = writeProgram(none, built, form, runtime, {}, folder);
    if (succeeded(input))
      input->objects.insert(input->objects.begin(), blob);
    return input;
  }

  std::unique_ptr<LoadedCode> load(BuiltProgram &) const override {
    throw Error::internal("kernels for cuda:" + name + " are loaded by the compiler");
  }

private:
  /// The CUDA toolkit that has libdevice, for kernels with sines and powers; empty without one.
  static std::string toolkitFolder() {
    const std::string usual = "/usr/local/cuda";
    return std::filesystem::exists(usual + "/nvvm/libdevice/libdevice.10.bc") ? usual : "";
  }

  const std::vector<Chip> chips;
  const std::string name;
  const CudaTarget answers;
};

} // namespace

std::string whyNot(Feature feature) {
  switch (feature) {
  case Feature::FolderMemory:
    return "--offload=FOLDER is for programs on the CPU; what travels from a GPU does so to memory "
           "of the host: --offload=host";
  case Feature::HostMemory:
    return "";
  case Feature::Epilogues:
  case Feature::Tf32:
    return "";
  }
  throw Error::internal("GPUs have no answer about a feature");
}

std::string whyNotMeasuredOn(const std::string &gpus, const std::string &device) {
  // "NVIDIA GeForce RTX 4090" as "nvidiageforcertx4090".
  std::string plain;
  for (char c : device)
    if (llvm::isAlnum(c))
      plain += llvm::toLower(c);
  const std::vector<Chip> chips = requireChips(gpus);
  for (const Chip &chip : chips) {
    const std::string names = chip.isNamed() ? chip.name : chipsOf(chip.name);
    for (llvm::StringRef name : llvm::split(names, ", "))
      if (!name.empty() && plain.find(name.str()) != std::string::npos)
        return "";
  }
  return "was measured on " + device + ", and the plan is for cuda:" + namesOf(chips);
}

std::unique_ptr<Backend> createCudaBackend(const BackendOptions &options) {
  return std::make_unique<CudaBackend>(options);
}

} // namespace stow::cuda
