#include "runtime/cuda/NcclApi.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/Functions.h"

#include <dlfcn.h>

namespace stow::cuda::nccl {

namespace {

/// The first that takes its versions as 10,000 M + 100 m + p; ncclGetLastError and sums in captured streams are older.
constexpr int kLeastVersion = 21800;

Library load() {
  void *file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!file)
    throw Error::badInput(
        concat("this program adds up over GPUs with NCCL, and there is none: ", dlerror(),
               "; install NVIDIA's libnccl2 or the Python package nvidia-nccl, and put its "
               "folder into LD_LIBRARY_PATH"));
  Library library = {};
  Functions functions(file);
  functions.find(library.getVersion, "ncclGetVersion");
  functions.find(library.getUniqueId, "ncclGetUniqueId");
  functions.find(library.commInitRank, "ncclCommInitRank");
  functions.find(library.commDestroy, "ncclCommDestroy");
  functions.find(library.commAbort, "ncclCommAbort");
  functions.find(library.commGetAsyncError, "ncclCommGetAsyncError");
  functions.find(library.getErrorString, "ncclGetErrorString");
  functions.find(library.getLastError, "ncclGetLastError");
  functions.find(library.allReduce, "ncclAllReduce");
  functions.find(library.reduceScatter, "ncclReduceScatter");
  functions.find(library.allGather, "ncclAllGather");
  functions.find(library.reduce, "ncclReduce");
  functions.find(library.broadcast, "ncclBroadcast");
  functions.find(library.groupStart, "ncclGroupStart");
  functions.find(library.groupEnd, "ncclGroupEnd");
  if (!functions.missing.empty())
    throw Error::badInput("this machine's NCCL is too old: it has no " + functions.missing +
                          "; install NCCL " + versionText(kLeastVersion) + " or later");
  Functions later(file);
  later.find(library.commRegister, "ncclCommRegister");
  later.find(library.commDeregister, "ncclCommDeregister");
  int version = 0;
  library.require(library.getVersion(&version), "asking NCCL for its version");
  if (version < kLeastVersion)
    throw Error::badInput(concat("this machine's NCCL is too old: it is ", versionText(version),
                                 ", and sums over GPUs take ", versionText(kLeastVersion),
                                 " or later"));
  return library;
}

} // namespace

std::string Library::describe(Result result) const {
  const char *text = getErrorString(result), *last = getLastError(nullptr);
  return concat(text ? text : "an error without a name",
                last && *last ? concat(" (", last, ")") : "");
}

void Library::require(Result result, const std::string &what) const {
  if (result != kSuccess)
    throw Error::badInput(concat(what, " failed in NCCL: ", describe(result)));
}

/// Up to 2.8 versions were counted in thousands.
std::string versionText(int version) {
  const int unit = version >= 10000 ? 10000 : 1000;
  return concat(version / unit, ".", version % unit / 100, ".", version % 100);
}

const Library &openLibrary() {
  static const Library library = load();
  return library;
}

} // namespace stow::cuda::nccl
