#include "codegen/host/LoadedObject.h"

#include "runtime/base/Error.h"

#include <dlfcn.h>

namespace stow {

LoadedObject::LoadedObject(KernelModule &kernels, const HostCpu &cpu)
    : count(kernels.symbols().size()) {
  TemporaryFolder folder;
  ProgramData data{kernels.symbols().vec(), "{}"};
  if (failed(emitProgramObject(kernels.module(), data, cpu, folder.file("k.o"))))
    throw Error::badInput("compilation of the kernels to load stopped");
  LinkInput input;
  input.objects = {folder.file("k.o")};
  input.libraries = {"-lm"};
  input.shared = true;
  link(input, folder.file("k.so"));
  handle = dlopen(folder.file("k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error::badInput(std::string("cannot load the kernels: ") + dlerror());
  table = static_cast<const StowKernelFn *>(dlsym(handle, "stow_kernels"));
}

LoadedObject::~LoadedObject() {
  if (handle)
    dlclose(handle);
}

} // namespace stow
