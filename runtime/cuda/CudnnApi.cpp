#include "runtime/cuda/CudnnApi.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/Functions.h"

#include <algorithm>
#include <dlfcn.h>
#include <utility>

namespace stow::cuda {
namespace {

constexpr const char *kFile = "libcudnn_graph.so.9";
constexpr const char *kFolders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib"};

/// The dynamic linker's reason, which names the file that it looked for.
std::string reason() {
  const char *text = dlerror();
  return text ? text : "no reason given";
}

std::string onOneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

} // namespace

std::shared_ptr<const CudnnLibrary> CudnnLibrary::open(const std::string &folder,
                                                       const std::string &nextStep) {
  std::vector<std::string> paths;
  if (folder.empty()) {
    paths.emplace_back(kFile);
    for (const char *known : kFolders)
      paths.push_back(std::string(known) + "/" + kFile);
  } else {
    paths.push_back(folder + "/" + kFile);
  }
  std::shared_ptr<CudnnLibrary> library(new CudnnLibrary);
  std::string tried;
  for (const std::string &path : paths) {
    library->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library->handle)
      break;
    tried += (tried.empty() ? "" : "; ") + reason();
  }
  if (!library->handle)
    throw Error::badInput(
        "cuDNN 9 is not installed (" + tried +
        "): install it from NVIDIA's packages or with \"pip install nvidia-cudnn-cu13\", and name "
        "the folder that holds " +
        kFile + " " + nextStep);
  Functions functions(library->handle);
  functions.find(library->create, "cudnnBackendCreateDescriptor");
  functions.find(library->destroy, "cudnnBackendDestroyDescriptor");
  functions.find(library->finalize, "cudnnBackendFinalize");
  functions.find(library->setAttribute, "cudnnBackendSetAttribute");
  functions.find(library->getAttribute, "cudnnBackendGetAttribute");
  functions.find(library->execute, "cudnnBackendExecute");
  functions.find(library->createHandle, "cudnnCreate");
  functions.find(library->destroyHandle, "cudnnDestroy");
  functions.find(library->setStream, "cudnnSetStream");
  functions.find(library->getVersion, "cudnnGetVersion");
  functions.find(library->errorString, "cudnnGetErrorString");
  functions.find(library->lastErrorString, "cudnnGetLastErrorString");
  if (!functions.missing.empty())
    throw Error::badInput(std::string(kFile) + " has no function " + functions.missing +
                          "; expected cuDNN 9.8 or later");
  constexpr size_t kDeviceless = 90800;
  if (library->getVersion() < kDeviceless)
    throw Error::badInput("cuDNN " + library->version() +
                          " plans for no GPU but the one at hand; expected 9.8 or later");
  return library;
}

/// The library stays loaded: it has threads and tables of its own that outlive its handles.
CudnnLibrary::~CudnnLibrary() = default;

std::string CudnnLibrary::versionText(int64_t number) {
  return concat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

std::string CudnnLibrary::lastError(int status) const {
  char text[1024] = "";
  lastErrorString(text, sizeof(text));
  text[sizeof(text) - 1] = 0;
  const std::string more = onOneLine(text);
  return errorString(status) + (more.empty() ? "" : ": " + more);
}

CudnnDescriptor::CudnnDescriptor(const CudnnLibrary &library, cudnn::DescriptorType type)
    : library(&library) {
  if (int status = library.create(type, &raw))
    throw Error::badInput(
        concat("cuDNN makes no descriptor of type ", type, ": ", library.lastError(status)));
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor &&other) noexcept
    : raw(std::exchange(other.raw, nullptr)), library(other.library) {}

CudnnDescriptor::~CudnnDescriptor() {
  if (raw)
    library->destroy(raw);
}

void CudnnDescriptor::set(int name, cudnn::AttributeType type, int64_t count, const void *values) {
  if (int status = library->setAttribute(raw, name, type, count, values))
    throw Error::badInput(
        concat("cuDNN refuses attribute ", name, ": ", library->lastError(status)));
}

void CudnnDescriptor::finalize() {
  std::string why;
  if (!tryFinalize(why))
    throw Error::badInput("cuDNN refuses it: " + why);
}

bool CudnnDescriptor::tryFinalize(std::string &why) {
  const int status = library->finalize(raw);
  if (status)
    why = library->lastError(status);
  return status == 0;
}

int64_t CudnnDescriptor::get(int name, cudnn::AttributeType type, int64_t room,
                             void *values) const {
  int64_t count = 0;
  if (int status = library->getAttribute(raw, name, type, room, &count, values))
    throw Error::badInput(
        concat("cuDNN has no attribute ", name, " here: ", library->lastError(status)));
  return count;
}

} // namespace stow::cuda
