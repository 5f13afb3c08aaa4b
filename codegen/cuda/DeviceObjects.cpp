#include "codegen/cuda/DeviceObjects.h"

#include "runtime/base/Error.h"
#include "runtime/format/DeviceCode.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <fstream>

using namespace mlir;

namespace stow::cuda {
namespace {

struct Assembly {
  std::string architecture, ptx; ///< with a zero at its end
  std::string cubinFile, messageFile;
  llvm::sys::ProcessInfo process;
  std::string cubin;
};

std::string contents(const std::string &path) {
  auto buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

void start(Assembly &assembly, const std::string &ptxas, const TemporaryFolder &folder) {
  const std::string ptxFile = folder.file(assembly.architecture + ".ptx");
  std::ofstream(ptxFile) << assembly.ptx.substr(0, assembly.ptx.size() - 1);
  assembly.cubinFile = folder.file(assembly.architecture + ".cubin");
  assembly.messageFile = folder.file(assembly.architecture + ".messages");
  const std::string chip = "-arch=" + assembly.architecture;
  const std::optional<llvm::StringRef> outputs[] = {std::nullopt, assembly.messageFile,
                                                    assembly.messageFile};
  assembly.process = llvm::sys::ExecuteNoWait(
      ptxas, {ptxas, chip, "-O3", ptxFile, "-o", assembly.cubinFile}, std::nullopt, outputs);
}

void finish(Assembly &assembly, const std::string &ptxas) {
  std::string error;
  const auto ended = llvm::sys::Wait(assembly.process, std::nullopt, &error);
  assembly.cubin = contents(assembly.cubinFile);
  if (ended.ReturnCode != 0 || assembly.cubin.empty())
    throw Error::badInput(
        "\"" + ptxas + "\" made no cubin for " + assembly.architecture + ": " + error +
        contents(assembly.messageFile) +
        "; take one of the toolkit that knows this architecture, or none: PTX alone "
        "is compiled where the program runs");
}

} // namespace

std::optional<std::string> findPtxas() {
  const llvm::StringRef usual = "/usr/local/cuda/bin";
  if (auto found = llvm::sys::findProgramByName("ptxas", usual))
    return *found;
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  return std::nullopt;
}

std::string packKernels(ModuleOp module, const TemporaryFolder &folder) {
  std::vector<Assembly> assemblies;
  auto binary = *module.getOps<gpu::BinaryOp>().begin();
  for (Attribute attribute : binary.getObjects()) {
    auto object = cast<gpu::ObjectAttr>(attribute);
    Assembly &assembly = assemblies.emplace_back();
    assembly.architecture = cast<NVVM::NVVMTargetAttr>(object.getTarget()).getChip().str();
    assembly.ptx = object.getObject().getValue().str() + '\0';
  }
  if (auto ptxas = findPtxas()) {
    for (Assembly &assembly : assemblies)
      start(assembly, *ptxas, folder);
    for (Assembly &assembly : assemblies)
      finish(assembly, *ptxas);
  } else {
    emitWarning(UnknownLoc::get(module.getContext()))
        << "there is no ptxas in /usr/local/cuda/bin or on PATH: the program has PTX alone, which "
           "the "
           "driver compiles at every first start on a machine; a CUDA toolkit, or pip install "
           "nvidia-cuda-nvcc, has one";
  }
  std::vector<DeviceImage> images;
  for (const Assembly &assembly : assemblies)
    if (!assembly.cubin.empty())
      images.push_back(
          {DeviceImage::Kind::Cubin, architectureNumber(assembly.architecture), assembly.cubin});
  for (const Assembly &assembly : assemblies)
    images.push_back(
        {DeviceImage::Kind::Ptx, architectureNumber(assembly.architecture), assembly.ptx});
  return packDeviceCode(images);
}

} // namespace stow::cuda
