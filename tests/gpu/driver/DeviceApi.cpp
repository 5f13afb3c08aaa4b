// The driver, devices, contexts and errors.
#include "runtime/base/Concat.h"
#include "tests/gpu/driver/State.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>

using namespace stow::sim;

namespace stow::sim {

struct ErrorText {
  CUresult result;
  const char *name, *text;
};

static const ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE",
     "uncorrectable ECC error encountered"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT",
     "the launch timed out and was terminated"},
    {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "an illegal instruction was encountered"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"}};

static const ErrorText *find(CUresult result) {
  for (const ErrorText &error : kErrors)
    if (error.result == result)
      return &error;
  return nullptr;
}

static int attribute(const Driver &driver, CUdevice_attribute which) {
  const ChipFigures &chip = driver.chip;
  switch (which) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return chip.major;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return chip.minor;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return chip.multiprocessors;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
    return 64;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    return 2147483647;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    return 65535;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    return 32;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    return chip.sharedPerBlock;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return chip.sharedPerBlockOptin;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
    return chip.sharedReserved;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    return chip.sharedPerBlockOptin + chip.sharedReserved;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    return chip.registersPerBlock;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    return chip.threadsPerMultiprocessor;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
    return chip.blocksPerMultiprocessor;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    return chip.l2Bytes;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    return chip.clockKHz;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    return chip.memoryClockKHz;
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    return driver.granularity > 0;
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    return 1;
  case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    return 65536;
  case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
    return 2147483647;
  case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    return 512;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
  case CU_DEVICE_ATTRIBUTE_INTEGRATED:
  case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
  case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
  case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_TCC_DRIVER:
  case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD:
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
  case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
  case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    return 0;
  default:
    throw Refusal{CUDA_ERROR_INVALID_VALUE,
                  concat("device attribute ", which, " is not known to the stand-in")};
  }
}

static void requireDevice(const Driver &driver, CUdevice device) {
  require(device >= 0 && device < driver.devices, "there is no such device",
          CUDA_ERROR_INVALID_DEVICE);
}

const char *errorName(CUresult result) {
  const ErrorText *error = find(result);
  return error ? error->name : "an error that the stand-in does not name";
}

} // namespace stow::sim

CUresult cuInit(unsigned flags) {
  return call("cuInit", Needs::Nothing, [&](Driver &driver) {
    require(flags == 0, "flags of cuInit must be 0");
    require(driver.devices > 0, "STANDIN_DEVICES is 0", CUDA_ERROR_NO_DEVICE);
    driver.initialized = true;
  });
}

CUresult cuDriverGetVersion(int *version) {
  return call("cuDriverGetVersion", Needs::Nothing,
              [&](Driver &driver) { *version = driver.version; });
}

CUresult cuDeviceGetCount(int *count) {
  return call("cuDeviceGetCount", Needs::Driver, [&](Driver &driver) { *count = driver.devices; });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return call("cuDeviceGet", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, ordinal);
    *device = ordinal;
  });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return call("cuDeviceGetName", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    snprintf(name, static_cast<size_t>(length), "%s", driver.chip.name.c_str());
  });
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  return call("cuDeviceGetUuid", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    memset(uuid->bytes, 0, sizeof uuid->bytes);
    memcpy(uuid->bytes, "stand-in", 8);
  });
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  return call("cuDeviceTotalMem", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    *bytes = driver.memory->capacity();
  });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  return call("cuDeviceGetAttribute", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    *value = attribute(driver, which);
  });
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  return call("cuDeviceComputeCapability", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    *major = driver.chip.major, *minor = driver.chip.minor;
  });
}

//===-- contexts ------------------------------------------------------------------------------===//

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    driver.note = stow::concat("device=", device);
    driver.primaryOf(device).references++;
    *context = &driver.primaryOf(device);
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    CUctx_st &context = driver.primaryOf(device);
    require(context.references > 0, "the primary context is not retained",
            CUDA_ERROR_INVALID_CONTEXT);
    if (--context.references == 0 && !driver.sticky)
      driver.finishAll();
  });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned) {
  return call("cuDevicePrimaryCtxSetFlags", Needs::Driver,
              [&](Driver &driver) { requireDevice(driver, device); });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  return call("cuDevicePrimaryCtxGetState", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    *flags = 0, *active = driver.primaryOf(device).references > 0;
  });
}

/// As if the process began anew, but for what the test set.
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return call("cuDevicePrimaryCtxReset", Needs::Driver, [&](Driver &driver) {
    requireDevice(driver, device);
    driver.sticky = CUDA_SUCCESS;
    driver.forgetObjects();
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return call("cuCtxSetCurrent", Needs::Driver, [&](Driver &driver) {
    require(!context || std::ranges::any_of(driver.primary,
                                            [&](auto &each) {
                                              return &each.second == context &&
                                                     context->references > 0;
                                            }),
            "the context does not exist", CUDA_ERROR_INVALID_CONTEXT);
    currentContext() = context;
  });
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  return call("cuCtxGetCurrent", Needs::Driver, [&](Driver &) { *context = currentContext(); });
}

CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxSetCurrent(context); }

CUresult cuCtxPopCurrent(CUcontext *context) {
  return call("cuCtxPopCurrent", Needs::Context, [&](Driver &) {
    if (context)
      *context = currentContext();
    currentContext() = nullptr;
  });
}

CUresult cuCtxGetDevice(CUdevice *device) {
  return call("cuCtxGetDevice", Needs::Context,
              [&](Driver &) { *device = currentContext()->device; });
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return call("cuCtxGetStreamPriorityRange", Needs::Context, [&](Driver &) {
    if (least)
      *least = 0;
    if (greatest)
      *greatest = -5;
  });
}

CUresult cuCtxSynchronize() {
  return call("cuCtxSynchronize", Needs::Context, [&](Driver &driver) {
    driver.requireNoCapture("cuCtxSynchronize");
    driver.counters.synchronizations++;
    driver.finishAll();
  });
}

//===-- errors and entry points ---------------------------------------------------------------===//

CUresult cuGetErrorName(CUresult result, const char **name) {
  const ErrorText *error = find(result);
  *name = error ? error->name : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **text) {
  const ErrorText *error = find(result);
  *text = error ? error->text : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// By the documented name; the newest version that this library has.
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t,
                          CUdriverProcAddressQueryResult *status) {
  return call("cuGetProcAddress", Needs::Nothing, [&](Driver &driver) {
    Dl_info self;
    dladdr(reinterpret_cast<void *>(&cuInit), &self);
    void *library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    *function = nullptr;
    std::string name = symbol;
    if (name == "cuGraphInstantiate")
      name = "cuGraphInstantiateWithFlags";
    for (const char *suffix : {"_v4", "_v3", "_v2", ""})
      if (!*function && library)
        *function = dlsym(library, (name + suffix).c_str());
    if (library)
      dlclose(library);
    bool tooNew = version > driver.version;
    if (status)
      *status = tooNew      ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                : *function ? CU_GET_PROC_ADDRESS_SUCCESS
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (tooNew)
      *function = nullptr;
    require(*function, name + " is not offered by the stand-in", CUDA_ERROR_NOT_FOUND);
  });
}
