#include "runtime/cuda/LoadKernels.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/DeviceCode.h"

namespace stow::cuda {

std::string nameOfDevice(const Driver &driver, int device) {
  char name[128] = {};
  driver.require(driver.deviceGetName(name, sizeof(name), device), "asking the GPU for its name");
  return name;
}

uint32_t architectureOf(const Driver &driver, int device) {
  int major = 0, minor = 0;
  driver.require(driver.deviceGetAttribute(&major, kComputeCapabilityMajor, device),
                 "asking the GPU for its compute capability");
  driver.require(driver.deviceGetAttribute(&minor, kComputeCapabilityMinor, device),
                 "asking the GPU for its compute capability");
  return static_cast<uint32_t>(10 * major + minor);
}

Module loadKernels(const Driver &driver, int device, const std::string &deviceName,
                   std::span<const char> code) {
  const uint32_t architecture = architectureOf(driver, device);
  const auto images = unpackDeviceCode(code);
  const std::string here =
      concat(deviceName, " of compute capability ", architecture / 10, ".", architecture % 10);
  Result refusal = 0;
  for (const DeviceImage &image : loadableOn(images, architecture)) {
    Module module = nullptr;
    refusal = driver.moduleLoadData(&module, image.bytes.data());
    if (refusal == 0)
      return module;
    if (refusal != kNoBinaryForGpu && refusal != kUnsupportedPtxVersion)
      driver.require(refusal, "loading the program's kernels on " + here);
  }
  std::string message =
      concat("the executable has no kernels for ", here, ", it has ", describe(images),
             "; compile the model with --target=cuda:sm_", architecture);
  if (refusal == kUnsupportedPtxVersion)
    message +=
        " where ptxas is installed, or install a newer driver, which knows their version of PTX";
  throw Error::badInput(message);
}

/// More than 48 KiB have to be asked for (CUDA C++ Programming Guide, "Shared Memory" of each compute capability).
unsigned allowShared(const Driver &driver, int device, Function function, int64_t bytes,
                     const std::string &what) {
  int most = 0;
  driver.require(driver.deviceGetAttribute(&most, kMostSharedPerBlock, device),
                 "asking the GPU for the shared memory of a block");
  if (bytes > most)
    throw Error::badInput(concat(what, " takes ", bytes, " bytes of shared memory a block, and ",
                                 nameOfDevice(driver, device), " gives ", most,
                                 "; run it on a GPU of compute capability 8.0 or later"));
  driver.require(driver.funcSetAttribute(function, kMaxDynamicShared, static_cast<int>(bytes)),
                 concat("asking for ", bytes, " bytes of shared memory for ", what));
  return static_cast<unsigned>(bytes);
}

} // namespace stow::cuda
