// cuBLASLt, opened at run time: the values of its enumerations, its types where they are not opaque, and the functions
// that this room calls.
//
// All as in cublasLt.h of CUDA 12 and 13; tests/runtime/cuda/HeadersTest.cpp compares them with the headers where there
// are any. Programs are built without CUDA and start on machines that have no cuBLASLt.
#pragma once

#include "runtime/cuda/Driver.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace stow::cuda::cublaslt {

using Status = int;                         ///< cublasStatus_t; 0: success
inline constexpr Status kNotSupported = 15; ///< also where there is no algorithm for what is asked
using Handle = struct LtHandle *;
using OpDesc = struct LtOpDesc *;
using MatrixDesc = struct LtMatrixDesc *;
using Preference = struct LtPreference *;

/// cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct Heuristic {
  Algorithm algorithm;
  size_t workspaceBytes;
  Status state;
  float waves;
  int reserved[4];
};

// cublasComputeType_t, cudaDataType and cublasOperation_t.
inline constexpr int kCompute32F = 68, kCompute32FFastTf32 = 77;
inline constexpr int kReal32F = 0, kReal16F = 2, kReal16BF = 14;
inline constexpr int kOpNone = 0, kOpTranspose = 1;
// cublasLtMatmulDescAttributes_t.
inline constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;
inline constexpr int kAuxPointer = 11, kAuxLeading = 12, kBiasType = 26;
// cublasLtMatrixLayoutAttribute_t.
inline constexpr int kBatchCount = 5, kBatchStride = 6;
// cublasLtMatmulPreferenceAttributes_t.
inline constexpr int kMaxWorkspace = 1, kReductionSchemes = 3;
inline constexpr int kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8;
/// Of cublasLtReductionScheme_t: parts of a sum are added in f32.
inline constexpr uint32_t kReduceInComputeType = 2;
// cublasLtEpilogue_t.
inline constexpr uint32_t kEpilogueDefault = 1, kEpilogueRelu = 2, kEpilogueBias = 4;
inline constexpr uint32_t kEpilogueGelu = 32, kEpilogueGeluGradient = 64 | 128;
inline constexpr uint32_t kEpilogueSumsOfA = 256, kEpilogueSumsOfB = 512;

/// The functions, by their documented names without "cublasLt".
struct Library {
  Status (*create)(Handle *);
  Status (*destroy)(Handle);
  const char *(*getStatusString)(Status);
  size_t (*getVersion)();
  Status (*matmulDescCreate)(OpDesc *, int, int);
  Status (*matmulDescDestroy)(OpDesc);
  Status (*matmulDescSetAttribute)(OpDesc, int, const void *, size_t);
  Status (*matrixLayoutCreate)(MatrixDesc *, int, uint64_t, uint64_t, int64_t);
  Status (*matrixLayoutDestroy)(MatrixDesc);
  Status (*matrixLayoutSetAttribute)(MatrixDesc, int, const void *, size_t);
  Status (*matmulPreferenceCreate)(Preference *);
  Status (*matmulPreferenceDestroy)(Preference);
  Status (*matmulPreferenceSetAttribute)(Preference, int, const void *, size_t);
  Status (*matmulAlgoGetHeuristic)(Handle, OpDesc, MatrixDesc, MatrixDesc, MatrixDesc, MatrixDesc,
                                   Preference, int, Heuristic *, int *);
  Status (*matmul)(Handle, OpDesc, const void *, const void *, MatrixDesc, const void *, MatrixDesc,
                   const void *, const void *, MatrixDesc, void *, MatrixDesc, const Algorithm *,
                   void *, size_t, Stream);
  Handle handle; ///< for one device

  /// Throws Error(BadInput) naming `what` and the library's reason, unless `status` is success.
  void require(Status status, const std::string &what) const;
};

/// The library with a handle for the device that is current in this thread, to which cuBLASLt ties it ("one cuBLASLt handle should be
/// created for each device", cublasLtCreate): the one that others hold, or a new one, which is destroyed with its last holder, as the device's context may be.
/// Throws Error(BadInput) where there is no library or where it is too old, with the next step.
std::shared_ptr<const Library> openLibrary();

} // namespace stow::cuda::cublaslt
