#include "codegen/host/LoadedObject.h"

#include "codegen/TemporaryFolder.h"
#include "runtime/base/Error.h"

#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/Support/MemoryBuffer.h"

namespace stow {
namespace {

template <typename Value> Value orThrow(llvm::Expected<Value> value) {
  if (!value)
    throw Error::badInput("cannot load the kernels: " + llvm::toString(value.takeError()));
  return std::move(*value);
}

void orThrow(llvm::Error error) {
  if (error)
    throw Error::badInput("cannot load the kernels: " + llvm::toString(std::move(error)));
}

} // namespace

/// One object file in memory, linked against this process.
class LoadedObject::Session {
public:
  Session()
      : session(orThrow(llvm::orc::SelfExecutorProcessControl::Create())), linker(session),
        library(session.createBareJITDylib("kernels")) {}
  ~Session() {
    if (llvm::Error error = session.endSession())
      session.reportError(std::move(error));
  }

  /// The address of `symbol` in the object file.
  void *load(const std::string &path, const char *symbol) {
    auto object = llvm::MemoryBuffer::getFile(path);
    if (!object)
      throw Error::badInput("cannot read \"" + path + "\": " + object.getError().message());
    library.addGenerator(
        orThrow(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess('\0')));
    orThrow(linker.add(library, std::move(*object)));
    return orThrow(session.lookup({&library}, symbol)).getAddress().toPtr<void *>();
  }

private:
  llvm::orc::ExecutionSession session;
  llvm::orc::ObjectLinkingLayer linker;
  llvm::orc::JITDylib &library;
};

LoadedObject::LoadedObject(KernelModule &kernels, const HostCpu &cpu)
    : session(std::make_unique<Session>()), count(kernels.symbols().size()) {
  TemporaryFolder folder;
  ProgramData data{kernels.symbols().vec(), "{}"};
  if (failed(emitProgramObject(kernels.module(), data, cpu, folder.file("k.o"))))
    throw Error::badInput("compilation of the kernels to load stopped");
  table = static_cast<const StowKernelFn *>(session->load(folder.file("k.o"), "stow_kernels"));
}

LoadedObject::~LoadedObject() = default;

} // namespace stow
