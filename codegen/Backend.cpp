#include "codegen/Backend.h"

#include "codegen/cuda/Chip.h"
#include "codegen/cuda/CudaBackend.h"
#include "codegen/host/HostBackend.h"
#include "runtime/base/Error.h"

#include "llvm/ADT/StringRef.h"

namespace stow {
namespace {

struct TargetEntry {
  const char *name;
  const char *listed;                         ///< as errors list it
  void (*requireDevice)(const std::string &); ///< throws for unknown devices; null: takes none
  std::unique_ptr<Backend> (*create)(const BackendOptions &);
};

/// Every target, in the order in which errors list them.
constexpr TargetEntry kTargets[] = {
    {"host", "host", nullptr, host::createHostBackend},
    {"cuda", "cuda:GPU", [](const std::string &name) { cuda::requireChips(name); },
     cuda::createCudaBackend},
};

/// The entry, and the device that follows a colon.
std::pair<const TargetEntry &, std::string> find(const std::string &target) {
  const auto [name, device] = llvm::StringRef(target).split(':');
  std::string known;
  for (const TargetEntry &entry : kTargets) {
    if (name == entry.name && (entry.requireDevice || device.empty()))
      return {entry, device.str()};
    known += std::string(known.empty() ? "" : ", ") + entry.listed;
  }
  throw Error::badInput("unknown target \"" + target + "\" for --target; known are " + known +
                        (name == "host" ? "; --target-cpu names the host's processor" : ""));
}

} // namespace

const std::string &requireTarget(const std::string &name) {
  const auto [entry, device] = find(name);
  if (entry.requireDevice)
    entry.requireDevice(device);
  return name;
}

std::unique_ptr<Backend> createBackend(const BackendOptions &options) {
  const auto [entry, device] = find(options.target);
  BackendOptions completed = options;
  completed.device = device;
  return entry.create(completed);
}

} // namespace stow
