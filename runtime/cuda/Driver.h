// libcuda, opened at run time: the functions of the driver that this room calls.
//
// Their declarations are those of CUDA's driver interface (docs.nvidia.com/cuda/cuda-driver-api), which does
// not change for a name with its version: nothing of CUDA is needed to build this, and an executable starts
// on machines without a driver. tests/runtime/cuda/HeadersTest.cpp compares them with the header where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stow::cuda {

using Result = int; ///< CUresult; 0: success
using Address = unsigned long long;
using Context = struct ContextHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using Module = struct ModuleHandle *;
using Function = struct FunctionHandle *;
using Graph = struct GraphHandle *;
using GraphExec = struct GraphExecHandle *;
using AllocationHandle = unsigned long long;

/// CUmemLocation.
struct MemoryLocation {
  int type, id;
};
/// CUmemAllocationProp.
struct AllocationProperties {
  int type, handleTypes;
  MemoryLocation location;
  void *windowsOnly;
  unsigned char compression, remoteAccess;
  unsigned short usage;
  unsigned char reserved[4];
};
/// CUmemAccessDesc.
struct AccessDescription {
  MemoryLocation location;
  int flags;
};

// Values of its enumerations.
inline constexpr Result kOutOfMemory = 2, kNoDevice = 100, kNotReady = 600;
inline constexpr Result kNoBinaryForGpu = 209, kUnsupportedPtxVersion = 222;
inline constexpr int kMultiprocessorCount = 16;     ///< of CUdevice_attribute
inline constexpr int kComputeCapabilityMajor = 75;  ///< of CUdevice_attribute
inline constexpr int kComputeCapabilityMinor = 76;  ///< of CUdevice_attribute
inline constexpr int kVirtualMemorySupported = 102; ///< of CUdevice_attribute
inline constexpr int kMostSharedPerBlock = 97;      ///< of CUdevice_attribute, to be asked for
inline constexpr int kRemoteAccessSupported = 110;  ///< of CUdevice_attribute, to virtual memory
inline constexpr int kMaxThreadsPerBlock = 0;       ///< of CUfunction_attribute
inline constexpr int kMaxDynamicShared = 8;         ///< of CUfunction_attribute
inline constexpr unsigned kStreamNonBlocking = 1;   ///< of CUstream_flags
inline constexpr unsigned kEventDisableTiming = 2;  ///< of CUevent_flags
inline constexpr int kCaptureThreadLocal = 1;       ///< of CUstreamCaptureMode
inline constexpr int kAllocationPinned = 1;         ///< of CUmemAllocationType
inline constexpr int kFileDescriptor = 1;           ///< of CUmemAllocationHandleType
inline constexpr int kLocationDevice = 1;           ///< of CUmemLocationType
inline constexpr int kGranularityRecommended = 1;   ///< of CUmemAllocationGranularity_flags
inline constexpr int kAccessReadWrite = 3;          ///< of CUmemAccess_flags
/// Of CUevent_record_flags: while a stream is captured, a node that records the event at every launch.
inline constexpr unsigned kEventRecordExternal = 1;

/// The functions, by their documented names without "cu".
struct Driver {
  Result (*init)(unsigned);
  Result (*driverGetVersion)(int *);
  Result (*deviceGet)(int *, int);
  Result (*deviceGetCount)(int *);
  Result (*deviceGetName)(char *, int, int);
  Result (*deviceGetAttribute)(int *, int, int);
  Result (*primaryCtxRetain)(Context *, int);
  Result (*primaryCtxRelease)(int);
  Result (*ctxSetCurrent)(Context);
  Result (*ctxGetDevice)(int *);
  Result (*memGetInfo)(size_t *, size_t *);
  Result (*memAlloc)(Address *, size_t);
  Result (*memFree)(Address);
  Result (*memGetAllocationGranularity)(size_t *, const AllocationProperties *, int);
  Result (*memAddressReserve)(Address *, size_t, size_t, Address, unsigned long long);
  Result (*memAddressFree)(Address, size_t);
  Result (*memCreate)(AllocationHandle *, size_t, const AllocationProperties *, unsigned long long);
  Result (*memRelease)(AllocationHandle);
  Result (*memMap)(Address, size_t, size_t, AllocationHandle, unsigned long long);
  Result (*memUnmap)(Address, size_t);
  Result (*memSetAccess)(Address, size_t, const AccessDescription *, size_t);
  Result (*memHostAlloc)(void **, size_t, unsigned);
  Result (*memFreeHost)(void *);
  Result (*memcpyHtoDAsync)(Address, const void *, size_t, Stream);
  Result (*memcpyDtoHAsync)(void *, Address, size_t, Stream);
  Result (*memcpyDtoDAsync)(Address, Address, size_t, Stream);
  Result (*memsetD8Async)(Address, unsigned char, size_t, Stream);
  Result (*streamCreate)(Stream *, unsigned);
  Result (*streamDestroy)(Stream);
  Result (*streamSynchronize)(Stream);
  Result (*streamQuery)(Stream);
  Result (*streamWaitEvent)(Stream, Event, unsigned);
  Result (*streamBeginCapture)(Stream, int);
  Result (*streamEndCapture)(Stream, Graph *);
  Result (*eventCreate)(Event *, unsigned);
  Result (*eventDestroy)(Event);
  Result (*eventRecord)(Event, Stream);
  Result (*eventRecordWithFlags)(Event, Stream, unsigned);
  Result (*eventSynchronize)(Event);
  Result (*eventQuery)(Event);
  Result (*eventElapsedTime)(float *, Event, Event);
  Result (*moduleLoadData)(Module *, const void *);
  Result (*moduleUnload)(Module);
  Result (*moduleGetFunction)(Function *, Module, const char *);
  Result (*funcGetAttribute)(int *, int, Function);
  Result (*funcSetAttribute)(Function, int, int);
  Result (*launchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, Stream, void **, void **);
  Result (*graphInstantiateWithFlags)(GraphExec *, Graph, unsigned long long);
  Result (*graphUpload)(GraphExec, Stream);
  Result (*graphLaunch)(GraphExec, Stream);
  Result (*graphExecDestroy)(GraphExec);
  Result (*graphDestroy)(Graph);
  Result (*getErrorName)(Result, const char **);
  Result (*getErrorString)(Result, const char **);

  /// Throws Error(BadInput) naming `what` and the driver's reason, unless `result` is success; DeviceLost
  /// where no later call can succeed.
  void require(Result result, const std::string &what) const;

  /// "CUDA_ERROR_OUT_OF_MEMORY: out of memory".
  std::string describe(Result result) const;
};

/// "13.0" for 13000, as drivers count their versions.
std::string versionText(int version);

/// The driver of this machine, initialized; opened at the first call. Throws Error(BadInput) where there
/// is none, where it is too old or where it finds no GPU, with the next step.
const Driver &openDriver();

} // namespace stow::cuda
