#include "codegen/Backend.h"

#include "codegen/host/HostBackend.h"
#include "runtime/base/Error.h"

#include "llvm/ADT/StringRef.h"

namespace stow {
namespace {

struct TargetEntry {
  const char *name;
  std::unique_ptr<Backend> (*create)(const BackendOptions &);
};

/// Every target, in the order in which errors list them.
constexpr TargetEntry kTargets[] = {
    {"host", host::createHostBackend},
};

const TargetEntry &find(const std::string &name) {
  std::string known;
  for (const TargetEntry &entry : kTargets) {
    if (name == entry.name)
      return entry;
    known += std::string(known.empty() ? "" : ", ") + entry.name;
  }
  const bool isHost = llvm::StringRef(name).starts_with("host:");
  throw Error::badInput("unknown target \"" + name + "\" for --target; known are " + known +
                        (isHost ? "; --target-cpu names the host's processor" : ""));
}

} // namespace

const std::string &requireTarget(const std::string &name) {
  find(name);
  return name;
}

std::unique_ptr<Backend> createBackend(const BackendOptions &options) {
  return find(options.target).create(options);
}

} // namespace stow
