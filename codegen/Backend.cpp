#include "codegen/Backend.h"
#include "codegen/Measured.h"

#include "codegen/cuda/Chip.h"
#include "codegen/cuda/CudaBackend.h"
#include "codegen/cuda/Link.h"
#include "codegen/cuda/Passes.h"
#include "codegen/host/HostBackend.h"
#include "codegen/kernels/Passes.h"
#include "runtime/base/Error.h"
#include "runtime/base/Names.h"

#include <algorithm>

namespace stow {
namespace {

struct TargetEntry {
  const char *name;
  const char *otherName;                                    ///< by which it is known as well
  const char *listed;                                       ///< as errors list it
  std::vector<std::string> (*devices)();                    ///< null: it takes none
  std::string (*requireDevice)(const std::string &devices); ///< as they are listed; throws
  const char *torchDevice;                                  ///< as PyTorch names the device
  std::string (*whyNot)(Feature);                           ///< empty: it has the feature
  /// As whyNotMeasuredOn, of these devices; null: the compiler measures its kernels itself.
  std::string (*whyNotMeasuredOn)(const std::string &devices, const std::string &measured);
  HostLink (*requireLink)(const std::string &devices,
                          const std::string &named); ///< null without Feature::HostMemory
  std::unique_ptr<Backend> (*create)(const BackendOptions &);
  void (*registerDialects)(
      mlir::DialectRegistry &); ///< of its own, as its passes; null: it has none
  void (*registerPasses)();
};

/// Every target, in the order in which errors list them.
constexpr TargetEntry kTargets[] = {
    {"host", "cpu", "host", nullptr, nullptr, "cpu", host::whyNot, nullptr, nullptr,
     host::createHostBackend, nullptr, nullptr},
    {"cuda", "cuda", "cuda:GPU", cuda::chipNames,
     [](const std::string &names) { return cuda::namesOf(cuda::requireChips(names)); }, "cuda",
     cuda::whyNot, cuda::whyNotMeasuredOn, cuda::requireLink, cuda::createCudaBackend,
     cuda::registerDialects, cuda::registerPasses},
};

/// The entry, and the device that follows a colon. A device's name alone says which target it is of.
std::pair<const TargetEntry &, std::string> find(const std::string &target) {
  const size_t colon = std::min(target.find(':'), target.size());
  const std::string name = target.substr(0, colon);
  const bool isAlone = colon == target.size();
  std::string known, near;
  for (const TargetEntry &entry : kTargets) {
    if (findName(name, {entry.name, entry.otherName}) && (entry.devices || isAlone))
      return {entry, isAlone ? "" : target.substr(colon + 1)};
    known += std::string(known.empty() ? "" : ", ") + entry.listed;
    if (!entry.devices || !isAlone)
      continue;
    if (findName(name, entry.devices()))
      return {entry, name};
    if (const std::string device = nearest(name, entry.devices()); !device.empty())
      near = std::string("; did you mean ") + entry.name + ":" + device + "?";
  }
  throw Error::badInput(
      "unknown target \"" + target + "\" for --target; known are " + known + near +
      (findName(name, {"host", "cpu"}) ? "; --target-cpu names the host's processor" : ""));
}

} // namespace

std::string requireTarget(const std::string &name) {
  const auto [entry, device] = find(name);
  return entry.devices ? std::string(entry.name) + ":" + entry.requireDevice(device) : entry.name;
}

std::string whyNot(const std::string &target, Feature feature) {
  return find(target).first.whyNot(feature);
}

bool programsMeasure(const std::string &target) {
  return find(target).first.whyNotMeasuredOn != nullptr;
}

std::string whyNotMeasuredOn(const std::string &target, const std::string &device) {
  const auto [entry, devices] = find(target);
  return entry.whyNotMeasuredOn(devices, device);
}

HostLink requireHostLink(const std::string &target, const std::string &named) {
  const auto [entry, device] = find(target);
  if (!entry.requireLink)
    throw Error::internal("a target without memory of a host is asked for its link");
  return entry.requireLink(device, named);
}

std::string torchDevice(const std::string &target) { return find(target).first.torchDevice; }

std::string targetOfProgram(const std::string &built) {
  const std::string name = built.substr(0, built.find(':'));
  for (const TargetEntry &entry : kTargets)
    if (name == entry.name && !entry.devices)
      return name;
  return built;
}

std::unique_ptr<Backend> createBackend(const BackendOptions &options) {
  const auto [entry, device] = find(options.target);
  BackendOptions completed = options;
  completed.device = device;
  return entry.create(completed);
}

void registerBackendDialects(mlir::DialectRegistry &registry) {
  for (const TargetEntry &entry : kTargets)
    if (entry.registerDialects)
      entry.registerDialects(registry);
}

void registerBackendPasses() {
  registerKernelPasses();
  for (const TargetEntry &entry : kTargets)
    if (entry.registerPasses)
      entry.registerPasses();
}

} // namespace stow
