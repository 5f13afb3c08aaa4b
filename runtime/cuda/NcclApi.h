// NCCL, opened at run time: the functions and values that sums over GPUs take (docs.nvidia.com/deeplearning/nccl,
// "API"). Declarations are our own; tests/runtime/cuda/HeadersTest.cpp compares them with the header where there is one.
#pragma once

#include "runtime/cuda/Driver.h"

#include <cstddef>
#include <string>

namespace stow::cuda::nccl {

using Result = int; ///< ncclResult_t
using Comm = struct CommHandle *;

/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

// ncclResult_t, ncclRedOp_t and ncclDataType_t.
inline constexpr Result kSuccess = 0, kInProgress = 7;
inline constexpr int kSum = 0, kFloat32 = 7;

/// The functions, by their documented names without "nccl".
struct Library {
  Result (*getVersion)(int *);
  Result (*getUniqueId)(UniqueId *);
  Result (*commInitRank)(Comm *, int, UniqueId, int);
  Result (*commDestroy)(Comm);
  Result (*commAbort)(Comm);
  Result (*commGetAsyncError)(Comm, Result *);
  const char *(*getErrorString)(Result);
  const char *(*getLastError)(Comm);
  Result (*allReduce)(const void *, void *, size_t, int, int, Comm, Stream);
  Result (*reduceScatter)(const void *, void *, size_t, int, int, Comm, Stream);
  Result (*allGather)(const void *, void *, size_t, int, Comm, Stream);
  Result (*reduce)(const void *, void *, size_t, int, int, int, Comm, Stream);
  Result (*broadcast)(const void *, void *, size_t, int, int, Comm, Stream);
  Result (*groupStart)();
  Result (*groupEnd)();
  /// Null before NCCL 2.19, which has no registration.
  Result (*commRegister)(Comm, void *, size_t, void **);
  Result (*commDeregister)(Comm, void *);

  /// "unhandled system error (...)", with what the library says of the last one.
  std::string describe(Result result) const;
  /// Throws Error(BadInput) naming `what` and the library's reason, unless `result` is success.
  void require(Result result, const std::string &what) const;
};

/// "2.27.7" for 22707, as NCCL counts its versions.
std::string versionText(int version);

/// The library of this process, opened at the first call. Throws Error(BadInput) where there is none or where it is too old, with the next step.
const Library &openLibrary();

} // namespace stow::cuda::nccl
