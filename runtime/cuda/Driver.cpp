#include "runtime/cuda/Driver.h"

#include "runtime/base/Concat.h"
#include "runtime/cuda/Functions.h"
#include "runtime/device/Device.h"

#include <dlfcn.h>

namespace stow::cuda {

namespace {

constexpr const char *kNextStep =
    "; programs for --target=host run without a GPU, from the same model";

/// The first driver that has all that is called here.
constexpr int kLeastVersion = 12000;

/// Results after which a context answers every call with the same (their descriptions in cuda.h).
enum class Loss : uint8_t { None, Kernel, Gpu };
Loss lossOf(Result result) {
  switch (result) {
  case 700: // ILLEGAL_ADDRESS
  case 702: // LAUNCH_TIMEOUT
  case 710: // ASSERT
  case 714: // HARDWARE_STACK_ERROR
  case 715: // ILLEGAL_INSTRUCTION
  case 716: // MISALIGNED_ADDRESS
  case 717: // INVALID_ADDRESS_SPACE
  case 718: // INVALID_PC
  case 719: // LAUNCH_FAILED
    return Loss::Kernel;
  case 46:  // DEVICE_UNAVAILABLE
  case 214: // ECC_UNCORRECTABLE
  case 220: // NVLINK_UNCORRECTABLE
  case 226: // CONTAINED
  case 999: // UNKNOWN: what is left of a GPU that has fallen off the bus
    return Loss::Gpu;
  default:
    return Loss::None;
  }
}

Driver load() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error::badInput(std::string("this program runs on a GPU, and there is no CUDA driver: ") +
                          dlerror() + "; install NVIDIA's driver" + kNextStep);
  Driver driver = {};
  Functions functions(library);
  functions.find(driver.init, "cuInit");
  functions.find(driver.driverGetVersion, "cuDriverGetVersion");
  functions.find(driver.deviceGet, "cuDeviceGet");
  functions.find(driver.deviceGetCount, "cuDeviceGetCount");
  functions.find(driver.deviceGetName, "cuDeviceGetName");
  functions.find(driver.deviceGetAttribute, "cuDeviceGetAttribute");
  functions.find(driver.primaryCtxRetain, "cuDevicePrimaryCtxRetain");
  functions.find(driver.primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  functions.find(driver.ctxSetCurrent, "cuCtxSetCurrent");
  functions.find(driver.ctxGetDevice, "cuCtxGetDevice");
  functions.find(driver.memGetInfo, "cuMemGetInfo_v2");
  functions.find(driver.memAlloc, "cuMemAlloc_v2");
  functions.find(driver.memFree, "cuMemFree_v2");
  functions.find(driver.memGetAllocationGranularity, "cuMemGetAllocationGranularity");
  functions.find(driver.memAddressReserve, "cuMemAddressReserve");
  functions.find(driver.memAddressFree, "cuMemAddressFree");
  functions.find(driver.memCreate, "cuMemCreate");
  functions.find(driver.memRelease, "cuMemRelease");
  functions.find(driver.memMap, "cuMemMap");
  functions.find(driver.memUnmap, "cuMemUnmap");
  functions.find(driver.memSetAccess, "cuMemSetAccess");
  functions.find(driver.memHostAlloc, "cuMemHostAlloc");
  functions.find(driver.memFreeHost, "cuMemFreeHost");
  functions.find(driver.memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  functions.find(driver.memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  functions.find(driver.memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  functions.find(driver.memsetD8Async, "cuMemsetD8Async");
  functions.find(driver.streamCreate, "cuStreamCreate");
  functions.find(driver.streamDestroy, "cuStreamDestroy_v2");
  functions.find(driver.streamSynchronize, "cuStreamSynchronize");
  functions.find(driver.streamQuery, "cuStreamQuery");
  functions.find(driver.streamWaitEvent, "cuStreamWaitEvent");
  functions.find(driver.streamBeginCapture, "cuStreamBeginCapture_v2");
  functions.find(driver.streamEndCapture, "cuStreamEndCapture");
  functions.find(driver.eventCreate, "cuEventCreate");
  functions.find(driver.eventDestroy, "cuEventDestroy_v2");
  functions.find(driver.eventRecord, "cuEventRecord");
  functions.find(driver.eventRecordWithFlags, "cuEventRecordWithFlags");
  functions.find(driver.eventSynchronize, "cuEventSynchronize");
  functions.find(driver.eventQuery, "cuEventQuery");
  functions.find(driver.eventElapsedTime, "cuEventElapsedTime");
  functions.find(driver.moduleLoadData, "cuModuleLoadData");
  functions.find(driver.moduleUnload, "cuModuleUnload");
  functions.find(driver.moduleGetFunction, "cuModuleGetFunction");
  functions.find(driver.funcGetAttribute, "cuFuncGetAttribute");
  functions.find(driver.funcSetAttribute, "cuFuncSetAttribute");
  functions.find(driver.launchKernel, "cuLaunchKernel");
  functions.find(driver.graphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
  functions.find(driver.graphUpload, "cuGraphUpload");
  functions.find(driver.graphLaunch, "cuGraphLaunch");
  functions.find(driver.graphExecDestroy, "cuGraphExecDestroy");
  functions.find(driver.graphDestroy, "cuGraphDestroy");
  functions.find(driver.getErrorName, "cuGetErrorName");
  functions.find(driver.getErrorString, "cuGetErrorString");
  if (!functions.missing.empty())
    throw Error::badInput("the CUDA driver of this machine is too old: it has no " +
                          functions.missing + "; install one for CUDA 12 or later" + kNextStep);
  int version = 0;
  driver.require(driver.driverGetVersion(&version), "asking the CUDA driver for its version");
  if (version < kLeastVersion)
    throw Error::badInput("the CUDA driver of this machine is too old: it is for CUDA " +
                          versionText(version) + ", and this program needs one for CUDA " +
                          versionText(kLeastVersion) + " or later" + kNextStep);
  const Result started = driver.init(0);
  if (started != kNoDevice)
    driver.require(started, "starting the CUDA driver");
  int count = 0;
  if (started != kNoDevice)
    driver.require(driver.deviceGetCount(&count), "counting GPUs");
  if (count == 0)
    throw Error::badInput(std::string("the CUDA driver finds no GPU on this machine") + kNextStep);
  return driver;
}

} // namespace

std::string versionText(int version) { return concat(version / 1000, ".", version % 1000 / 10); }

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(result, &name) != 0 || !name)
    return concat("CUDA error ", result);
  getErrorString(result, &text);
  return std::string(name) + (text ? std::string(": ") + text : "");
}

void Driver::require(Result result, const std::string &what) const {
  if (result == 0)
    return;
  const std::string message = what + " failed: " + describe(result);
  switch (lossOf(result)) {
  case Loss::None:
    throw Error::badInput(message);
  case Loss::Kernel:
    throw DeviceLost(message +
                     "; a command of the program did this: --check=canaries runs them one "
                     "by one and names it");
  case Loss::Gpu:
    throw DeviceLost(message + "; the GPU is lost to this process (nvidia-smi and the system's log "
                               "say more)");
  }
}

const Driver &openDriver() {
  static const Driver driver = load();
  return driver;
}

} // namespace stow::cuda
