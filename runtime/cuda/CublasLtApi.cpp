#include "runtime/cuda/CublasLtApi.h"

#include "runtime/base/Error.h"
#include "runtime/cuda/Functions.h"
#include "runtime/cuda/PerDevice.h"

#include <dlfcn.h>

namespace stow::cuda::cublaslt {
namespace {

Library load() {
  void *file = nullptr;
  for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12"})
    if (!file)
      file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!file)
    throw Error::badInput(
        "this program multiplies matrices with cuBLASLt, and there is none: tried "
        "libcublasLt.so.13 and libcublasLt.so.12; install CUDA's cuBLAS or the "
        "Python package nvidia-cublas, and put its folder into LD_LIBRARY_PATH");
  Library library = {};
  Functions functions(file);
  functions.find(library.create, "cublasLtCreate");
  functions.find(library.destroy, "cublasLtDestroy");
  functions.find(library.getStatusString, "cublasLtGetStatusString");
  functions.find(library.getVersion, "cublasLtGetVersion");
  functions.find(library.matmulDescCreate, "cublasLtMatmulDescCreate");
  functions.find(library.matmulDescDestroy, "cublasLtMatmulDescDestroy");
  functions.find(library.matmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
  functions.find(library.matrixLayoutCreate, "cublasLtMatrixLayoutCreate");
  functions.find(library.matrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
  functions.find(library.matrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute");
  functions.find(library.matmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
  functions.find(library.matmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
  functions.find(library.matmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
  functions.find(library.matmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
  functions.find(library.matmul, "cublasLtMatmul");
  if (!functions.missing.empty())
    throw Error::badInput("this machine's cuBLASLt is too old: it has no " + functions.missing);
  return library;
}

} // namespace

void Library::require(Status status, const std::string &what) const {
  if (status != 0)
    throw Error::badInput(what + " failed in cuBLASLt: " + getStatusString(status));
}

std::shared_ptr<const Library> openLibrary() {
  static const Library functions = load();
  static PerDevice<const Library> opened;
  return opened.get([] {
    auto *library = new Library(functions);
    std::shared_ptr<const Library> held(library, [](const Library *unused) {
      if (unused->handle)
        unused->destroy(unused->handle);
      delete unused;
    });
    library->require(library->create(&library->handle), "starting");
    return held;
  });
}

} // namespace stow::cuda::cublaslt
