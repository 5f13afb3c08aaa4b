// What runtime/cuda calls libcuda, cuBLASLt and cuDNN by is what their headers say: numbers, sizes and signatures.
//
// The room declares them itself, so that a build without CUDA makes the same programs as one with it. Here, where a
// header is installed, a difference does not compile.
#include "runtime/cuda/CublasLtApi.h"
#include "runtime/cuda/CudnnApi.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/NcclApi.h"
#include "runtime/device/Device.h"

#include <gtest/gtest.h>

#include <type_traits>

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace stow::cuda {
namespace {

template <typename Type>
concept Complete = requires { sizeof(Type); };

/// Whether a caller who passes `Ours` puts the bits where a callee who takes `Theirs` looks for them: an int for an enumeration,
/// a handle of any name for a handle, a structure of the same size for a structure.
template <typename Ours, typename Theirs> constexpr bool isPassedAs() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using To = std::remove_pointer_t<Ours>;
    using TheirTo = std::remove_pointer_t<Theirs>;
    using Bare = std::remove_cv_t<To>;
    using TheirBare = std::remove_cv_t<TheirTo>;
    if constexpr (std::is_const_v<To> != std::is_const_v<TheirTo>)
      return false;
    else if constexpr (std::is_void_v<Bare> || !Complete<Bare>) // a handle or bytes
      return std::is_void_v<TheirBare> || std::is_class_v<TheirBare>;
    else if constexpr (!Complete<TheirBare>)
      return false;
    else
      return isPassedAs<Bare, TheirBare>();
  } else if constexpr (std::is_enum_v<Theirs>) {
    return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_class_v<Ours> && std::is_class_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
  } else {
    return std::is_same_v<Ours, Theirs> ||
           (std::is_integral_v<Ours> && std::is_integral_v<Theirs> &&
            sizeof(Ours) == sizeof(Theirs) && std::is_signed_v<Ours> == std::is_signed_v<Theirs>);
  }
}

template <typename Ours, typename Theirs> struct IsCalledAs : std::false_type {};
template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct IsCalledAs<OurResult (*)(Ours...), TheirResult (*)(Theirs...)>
    : std::bool_constant<isPassedAs<OurResult, TheirResult>() &&
                         (isPassedAs<Ours, Theirs>() && ...)> {};

#define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
#define CALLED_AS(ours, theirs)                                                                    \
  static_assert(IsCalledAs<decltype(ours), decltype(&(theirs))>::value)

// The comparison itself finds what it is for.
enum Answer : unsigned { kYes };
struct Handle;
static_assert(IsCalledAs<int (*)(void **, int, const void *),
                         Answer (*)(Handle **, Answer, const void *)>::value);
static_assert(!IsCalledAs<int (*)(int), int (*)(int, int)>::value);
static_assert(!IsCalledAs<int (*)(int), int (*)(long)>::value);
static_assert(!IsCalledAs<int (*)(unsigned), int (*)(int)>::value);
static_assert(!IsCalledAs<int (*)(const int *), int (*)(int *)>::value);
static_assert(!IsCalledAs<int (*)(int *), int (*)(int64_t *)>::value);
static_assert(!IsCalledAs<int (*)(float), int (*)(double)>::value);
static_assert(!IsCalledAs<int (*)(int), Answer (*)(Answer *)>::value);

#if __has_include(<cuda.h>)
CALLED_AS(Driver::init, cuInit);
CALLED_AS(Driver::driverGetVersion, cuDriverGetVersion);
CALLED_AS(Driver::deviceGet, cuDeviceGet);
CALLED_AS(Driver::deviceGetCount, cuDeviceGetCount);
CALLED_AS(Driver::deviceGetName, cuDeviceGetName);
CALLED_AS(Driver::deviceGetAttribute, cuDeviceGetAttribute);
CALLED_AS(Driver::primaryCtxRetain, cuDevicePrimaryCtxRetain);
CALLED_AS(Driver::primaryCtxRelease, cuDevicePrimaryCtxRelease);
CALLED_AS(Driver::ctxSetCurrent, cuCtxSetCurrent);
CALLED_AS(Driver::ctxGetDevice, cuCtxGetDevice);
CALLED_AS(Driver::memGetInfo, cuMemGetInfo);
CALLED_AS(Driver::memAlloc, cuMemAlloc);
CALLED_AS(Driver::memFree, cuMemFree);
CALLED_AS(Driver::memGetAllocationGranularity, cuMemGetAllocationGranularity);
CALLED_AS(Driver::memAddressReserve, cuMemAddressReserve);
CALLED_AS(Driver::memAddressFree, cuMemAddressFree);
CALLED_AS(Driver::memCreate, cuMemCreate);
CALLED_AS(Driver::memRelease, cuMemRelease);
CALLED_AS(Driver::memMap, cuMemMap);
CALLED_AS(Driver::memUnmap, cuMemUnmap);
CALLED_AS(Driver::memSetAccess, cuMemSetAccess);
CALLED_AS(Driver::memHostAlloc, cuMemHostAlloc);
CALLED_AS(Driver::memFreeHost, cuMemFreeHost);
CALLED_AS(Driver::memcpyHtoDAsync, cuMemcpyHtoDAsync);
CALLED_AS(Driver::memcpyDtoHAsync, cuMemcpyDtoHAsync);
CALLED_AS(Driver::memcpyDtoDAsync, cuMemcpyDtoDAsync);
CALLED_AS(Driver::memsetD8Async, cuMemsetD8Async);
CALLED_AS(Driver::streamCreate, cuStreamCreate);
CALLED_AS(Driver::streamDestroy, cuStreamDestroy);
CALLED_AS(Driver::streamSynchronize, cuStreamSynchronize);
CALLED_AS(Driver::streamQuery, cuStreamQuery);
CALLED_AS(Driver::streamWaitEvent, cuStreamWaitEvent);
CALLED_AS(Driver::streamBeginCapture, cuStreamBeginCapture);
CALLED_AS(Driver::streamEndCapture, cuStreamEndCapture);
CALLED_AS(Driver::eventCreate, cuEventCreate);
CALLED_AS(Driver::eventDestroy, cuEventDestroy);
CALLED_AS(Driver::eventRecord, cuEventRecord);
CALLED_AS(Driver::eventRecordWithFlags, cuEventRecordWithFlags);
CALLED_AS(Driver::eventSynchronize, cuEventSynchronize);
CALLED_AS(Driver::eventQuery, cuEventQuery);
CALLED_AS(Driver::eventElapsedTime, cuEventElapsedTime);
CALLED_AS(Driver::moduleLoadData, cuModuleLoadData);
CALLED_AS(Driver::moduleUnload, cuModuleUnload);
CALLED_AS(Driver::moduleGetFunction, cuModuleGetFunction);
CALLED_AS(Driver::funcGetAttribute, cuFuncGetAttribute);
CALLED_AS(Driver::launchKernel, cuLaunchKernel);
CALLED_AS(Driver::graphInstantiateWithFlags, cuGraphInstantiateWithFlags);
CALLED_AS(Driver::graphUpload, cuGraphUpload);
CALLED_AS(Driver::graphLaunch, cuGraphLaunch);
CALLED_AS(Driver::graphExecDestroy, cuGraphExecDestroy);
CALLED_AS(Driver::graphDestroy, cuGraphDestroy);
CALLED_AS(Driver::getErrorName, cuGetErrorName);
CALLED_AS(Driver::getErrorString, cuGetErrorString);
SAME(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(kNoDevice, CUDA_ERROR_NO_DEVICE);
SAME(kNotReady, CUDA_ERROR_NOT_READY);
SAME(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(kVirtualMemorySupported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(kRemoteAccessSupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(kFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(kGranularityRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
#define AT(ours, theirs)                                                                           \
  static_assert(offsetof(AllocationProperties, ours) == offsetof(CUmemAllocationProp, theirs))
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
AT(type, type);
AT(handleTypes, requestedHandleTypes);
AT(location, location);
AT(windowsOnly, win32HandleMetaData);
AT(compression, allocFlags.compressionType);
AT(remoteAccess, allocFlags.gpuDirectRDMACapable);
AT(usage, allocFlags.usage);
#undef AT
static_assert(sizeof(MemoryLocation) == sizeof(CUmemLocation) &&
              offsetof(MemoryLocation, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc) &&
              offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
SAME(kMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(kEventRecordExternal, CU_EVENT_RECORD_EXTERNAL);

CUresult nameOf(CUresult, const char **text) {
  *text = "an error";
  return CUDA_SUCCESS;
}

/// What `require` throws for a result: whether a later call can succeed is known by the result's number.
bool isDeviceLostBy(CUresult result) {
  Driver driver = {};
  driver.getErrorName = driver.getErrorString =
      reinterpret_cast<Result (*)(Result, const char **)>(nameOf);
  try {
    driver.require(result, "asking");
  } catch (const DeviceLost &) {
    return true;
  } catch (const Error &) {
  }
  return false;
}

TEST(HeadersTest, ResultsAfterWhichAContextIsLost) {
  for (CUresult result :
       {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_ASSERT,
        CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,
        CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_ECC_UNCORRECTABLE,
        CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_CONTAINED, CUDA_ERROR_UNKNOWN})
    EXPECT_TRUE(isDeviceLostBy(result)) << result;
  for (CUresult result :
       {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES})
    EXPECT_FALSE(isDeviceLostBy(result)) << result;
}
#endif

#if __has_include(<cublasLt.h>)
CALLED_AS(cublaslt::Library::create, cublasLtCreate);
CALLED_AS(cublaslt::Library::destroy, cublasLtDestroy);
CALLED_AS(cublaslt::Library::getStatusString, cublasLtGetStatusString);
CALLED_AS(cublaslt::Library::getVersion, cublasLtGetVersion);
CALLED_AS(cublaslt::Library::matmulDescCreate, cublasLtMatmulDescCreate);
CALLED_AS(cublaslt::Library::matmulDescDestroy, cublasLtMatmulDescDestroy);
CALLED_AS(cublaslt::Library::matmulDescSetAttribute, cublasLtMatmulDescSetAttribute);
CALLED_AS(cublaslt::Library::matrixLayoutCreate, cublasLtMatrixLayoutCreate);
CALLED_AS(cublaslt::Library::matrixLayoutDestroy, cublasLtMatrixLayoutDestroy);
CALLED_AS(cublaslt::Library::matrixLayoutSetAttribute, cublasLtMatrixLayoutSetAttribute);
CALLED_AS(cublaslt::Library::matmulPreferenceCreate, cublasLtMatmulPreferenceCreate);
CALLED_AS(cublaslt::Library::matmulPreferenceDestroy, cublasLtMatmulPreferenceDestroy);
CALLED_AS(cublaslt::Library::matmulPreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute);
CALLED_AS(cublaslt::Library::matmulAlgoGetHeuristic, cublasLtMatmulAlgoGetHeuristic);
CALLED_AS(cublaslt::Library::matmul, cublasLtMatmul);
static_assert(sizeof(cublaslt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
#define AT(ours, theirs)                                                                           \
  static_assert(offsetof(cublaslt::Heuristic, ours) ==                                             \
                offsetof(cublasLtMatmulHeuristicResult_t, theirs))
AT(algorithm, algo);
AT(workspaceBytes, workspaceSize);
AT(state, state);
AT(waves, wavesCount);
#undef AT
SAME(cublaslt::kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(cublaslt::kCompute32F, CUBLAS_COMPUTE_32F);
SAME(cublaslt::kCompute32FFastTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(cublaslt::kReal32F, CUDA_R_32F);
SAME(cublaslt::kReal16F, CUDA_R_16F);
SAME(cublaslt::kReal16BF, CUDA_R_16BF);
SAME(cublaslt::kOpNone, CUBLAS_OP_N);
SAME(cublaslt::kOpTranspose, CUBLAS_OP_T);
SAME(cublaslt::kTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(cublaslt::kTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(cublaslt::kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(cublaslt::kBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(cublaslt::kBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(cublaslt::kAuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
SAME(cublaslt::kAuxLeading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
SAME(cublaslt::kBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(cublaslt::kBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(cublaslt::kMaxWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(cublaslt::kReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(cublaslt::kAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(cublaslt::kAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(cublaslt::kAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(cublaslt::kAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(cublaslt::kReduceInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(cublaslt::kEpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT);
SAME(cublaslt::kEpilogueRelu, CUBLASLT_EPILOGUE_RELU);
SAME(cublaslt::kEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
SAME(cublaslt::kEpilogueGelu, CUBLASLT_EPILOGUE_GELU);
SAME(cublaslt::kEpilogueGelu | 128, CUBLASLT_EPILOGUE_GELU_AUX);
SAME(cublaslt::kEpilogueGeluGradient, CUBLASLT_EPILOGUE_DGELU);
SAME(cublaslt::kEpilogueSumsOfA, CUBLASLT_EPILOGUE_BGRADA);
SAME(cublaslt::kEpilogueSumsOfB, CUBLASLT_EPILOGUE_BGRADB);
#endif

#if __has_include(<nccl.h>)
CALLED_AS(nccl::Library::getVersion, ncclGetVersion);
CALLED_AS(nccl::Library::getUniqueId, ncclGetUniqueId);
CALLED_AS(nccl::Library::commInitRank, ncclCommInitRank);
CALLED_AS(nccl::Library::commDestroy, ncclCommDestroy);
CALLED_AS(nccl::Library::commAbort, ncclCommAbort);
CALLED_AS(nccl::Library::commGetAsyncError, ncclCommGetAsyncError);
CALLED_AS(nccl::Library::getErrorString, ncclGetErrorString);
CALLED_AS(nccl::Library::getLastError, ncclGetLastError);
CALLED_AS(nccl::Library::allReduce, ncclAllReduce);
CALLED_AS(nccl::Library::reduceScatter, ncclReduceScatter);
CALLED_AS(nccl::Library::allGather, ncclAllGather);
CALLED_AS(nccl::Library::reduce, ncclReduce);
CALLED_AS(nccl::Library::broadcast, ncclBroadcast);
CALLED_AS(nccl::Library::groupStart, ncclGroupStart);
CALLED_AS(nccl::Library::groupEnd, ncclGroupEnd);
CALLED_AS(nccl::Library::commRegister, ncclCommRegister);
CALLED_AS(nccl::Library::commDeregister, ncclCommDeregister);
SAME(nccl::kSuccess, ncclSuccess);
SAME(nccl::kInProgress, ncclInProgress);
SAME(nccl::kSum, ncclSum);
SAME(nccl::kFloat32, ncclFloat32);
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
#endif

#if __has_include(<cudnn_graph.h>)
CALLED_AS(CudnnLibrary::create, cudnnBackendCreateDescriptor);
CALLED_AS(CudnnLibrary::destroy, cudnnBackendDestroyDescriptor);
CALLED_AS(CudnnLibrary::finalize, cudnnBackendFinalize);
CALLED_AS(CudnnLibrary::setAttribute, cudnnBackendSetAttribute);
CALLED_AS(CudnnLibrary::getAttribute, cudnnBackendGetAttribute);
CALLED_AS(CudnnLibrary::execute, cudnnBackendExecute);
CALLED_AS(CudnnLibrary::createHandle, cudnnCreate);
CALLED_AS(CudnnLibrary::destroyHandle, cudnnDestroy);
CALLED_AS(CudnnLibrary::setStream, cudnnSetStream);
SAME(cudnn::kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
SAME(cudnn::kPointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
SAME(cudnn::kPointwiseMode, CUDNN_ATTR_POINTWISE_MODE);
SAME(cudnn::kPointwiseComputeType, CUDNN_ATTR_POINTWISE_MATH_PREC);
SAME(cudnn::kPointwiseNan, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION);
SAME(cudnn::kPointwiseOf, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
SAME(cudnn::kPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
SAME(cudnn::kPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
SAME(cudnn::kPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
SAME(cudnn::kTensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
SAME(cudnn::kTypeBoolean, CUDNN_TYPE_BOOLEAN);
SAME(cudnn::kTypeNan, CUDNN_TYPE_NAN_PROPOGATION);
SAME(cudnn::kTypePointwiseMode, CUDNN_TYPE_POINTWISE_MODE);
SAME(cudnn::kAdd, CUDNN_POINTWISE_ADD);
SAME(cudnn::kRelu, CUDNN_POINTWISE_RELU_FWD);
SAME(cudnn::kPropagateNan, CUDNN_PROPAGATE_NAN);
SAME(cudnn::kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
SAME(cudnn::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
SAME(cudnn::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
SAME(cudnn::kHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
SAME(cudnn::kExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
SAME(cudnn::kKnobChoice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
SAME(cudnn::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
SAME(cudnn::kEngineConfigKnobs, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
SAME(cudnn::kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
SAME(cudnn::kKnobType, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
SAME(cudnn::kKnobValue, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
SAME(cudnn::kGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
SAME(cudnn::kVariantPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
SAME(cudnn::kVariantPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
SAME(cudnn::kVariantPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
SAME(cudnn::kEngineGraph, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
SAME(cudnn::kEngineIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
SAME(cudnn::kEngineDevice, CUDNN_ATTR_ENGINE_DEVICEPROP);
SAME(cudnn::kTypeHandle, CUDNN_TYPE_HANDLE);
SAME(cudnn::kTypePointer, CUDNN_TYPE_VOID_PTR);
SAME(cudnn::kTypeKnob, CUDNN_TYPE_KNOB_TYPE);
SAME(cudnn::kForwardOperation, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
SAME(cudnn::kGradWeightOperation, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
SAME(cudnn::kGradInputOperation, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
SAME(cudnn::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
SAME(cudnn::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
SAME(cudnn::kDevice, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
SAME(cudnn::kConvolutionComputeType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
SAME(cudnn::kConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
SAME(cudnn::kConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
SAME(cudnn::kConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
SAME(cudnn::kConvolutionPadsAfter, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
SAME(cudnn::kConvolutionPadsBefore, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
SAME(cudnn::kConvolutionSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
SAME(cudnn::kHeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE);
SAME(cudnn::kHeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
SAME(cudnn::kHeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
SAME(cudnn::kHeuristicsDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
SAME(cudnn::kEngineConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
SAME(cudnn::kPlanEngineConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
SAME(cudnn::kPlanWorkspaceBytes, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
SAME(cudnn::kPlanJson, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
SAME(cudnn::kPlanDevice, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
SAME(cudnn::kForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
SAME(cudnn::kForwardAlpha + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
SAME(cudnn::kForwardAlpha + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
SAME(cudnn::kForwardAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
SAME(cudnn::kForwardAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
SAME(cudnn::kForwardAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
SAME(cudnn::kGradInputAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
SAME(cudnn::kGradInputAlpha + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
SAME(cudnn::kGradInputAlpha + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
SAME(cudnn::kGradInputAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
SAME(cudnn::kGradInputAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
SAME(cudnn::kGradInputAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
SAME(cudnn::kGradWeightAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
SAME(cudnn::kGradWeightAlpha + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
SAME(cudnn::kGradWeightAlpha + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
SAME(cudnn::kGradWeightAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
SAME(cudnn::kGradWeightAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
SAME(cudnn::kGradWeightAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
SAME(cudnn::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
SAME(cudnn::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
SAME(cudnn::kTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
SAME(cudnn::kTensorShape, CUDNN_ATTR_TENSOR_DIMENSIONS);
SAME(cudnn::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
SAME(cudnn::kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
SAME(cudnn::kEngineNumericalNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
SAME(cudnn::kDeviceJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
SAME(cudnn::kTypeDataType, CUDNN_TYPE_DATA_TYPE);
SAME(cudnn::kTypeInt64, CUDNN_TYPE_INT64);
SAME(cudnn::kTypeFloat, CUDNN_TYPE_FLOAT);
SAME(cudnn::kTypeDouble, CUDNN_TYPE_DOUBLE);
SAME(cudnn::kTypeConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
SAME(cudnn::kTypeHeuristicsMode, CUDNN_TYPE_HEUR_MODE);
SAME(cudnn::kTypeNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
SAME(cudnn::kTypeDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
SAME(cudnn::kTypeChar, CUDNN_TYPE_CHAR);
SAME(cudnn::kFloat, CUDNN_DATA_FLOAT);
SAME(cudnn::kDouble, CUDNN_DATA_DOUBLE);
SAME(cudnn::kHalf, CUDNN_DATA_HALF);
SAME(cudnn::kBfloat16, CUDNN_DATA_BFLOAT16);
SAME(cudnn::kCrossCorrelation, CUDNN_CROSS_CORRELATION);
SAME(cudnn::kFallback, CUDNN_HEUR_MODE_FALLBACK);
SAME(cudnn::kModeA, CUDNN_HEUR_MODE_A);
SAME(cudnn::kTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
SAME(cudnn::kDownConvertInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
SAME(cudnn::kReducedPrecisionReduction, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
SAME(cudnn::kFft, CUDNN_NUMERICAL_NOTE_FFT);
SAME(cudnn::kNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
SAME(cudnn::kWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD);
SAME(cudnn::kWinograd4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4);
SAME(cudnn::kWinograd6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6);
SAME(cudnn::kWinograd13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
SAME(cudnn::kStrictNanPropagation, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
#endif

TEST(HeadersTest, SomeAreCompared) {
#if !__has_include(<cuda.h>)
  GTEST_SKIP() << "the headers of CUDA are not installed";
#endif
}

} // namespace
} // namespace stow::cuda
