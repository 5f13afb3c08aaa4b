// cuDNN 9's backend interface, opened at run time: compiler and programs are built without cuDNN.
//
// The numbers below are cuDNN 9's, whose backend interface keeps them within a major version;
// tests/runtime/cuda/HeadersTest.cpp compares each with the headers where there are any. Planning
// needs neither a GPU nor a driver: a device is described by a property descriptor (cuDNN's
// documentation, "deviceless ahead-of-time compilation", since 9.8). Programs have a handle instead.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stow::cuda {

namespace cudnn {

/// cudnnBackendDescriptorType_t.
enum DescriptorType : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristics = 4,
  kExecutionPlan = 5,
  kKnobChoice = 7,
  kForwardOperation = 10,
  kGradWeightOperation = 11,
  kGradInputOperation = 12,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kDevice = 38,
};

/// cudnnBackendAttributeName_t.
enum AttributeName : int {
  kPointwiseMode = 0,
  kPointwiseComputeType = 1,
  kPointwiseNan = 2,
  kConvolutionComputeType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPadsAfter = 104,
  kConvolutionPadsBefore = 105,
  kConvolutionSpatialDims = 106,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kHeuristicsDevice = 204,
  kEngineConfigEngine = 300,
  kEngineConfigKnobs = 302,
  kPlanHandle = 400,
  kPlanEngineConfig = 401,
  kPlanWorkspaceBytes = 402,
  kPlanJson = 405,
  kPlanDevice = 407,
  kKnobType = 600,
  kKnobValue = 601,
  kForwardAlpha = 700,    ///< then beta, convolution, weight, x, y
  kGradInputAlpha = 706,  ///< then beta, convolution, weight, dx, dy
  kGradWeightAlpha = 712, ///< then beta, convolution, dweight, x, dy
  kPointwiseOf = 750,     ///< then x, b, y
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorShape = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kVariantPackIds = 1000,
  kVariantPackPointers = 1001,
  kVariantPackWorkspace = 1003,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineNumericalNotes = 1303,
  kEngineDevice = 1307,
  kDeviceJson = 2702,
};

/// cudnnBackendAttributeType_t.
enum AttributeType : int {
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeFloat = 4,
  kTypeDouble = 5,
  kTypePointer = 6,
  kTypeConvolutionMode = 7,
  kTypeHeuristicsMode = 8,
  kTypeKnob = 9,
  kTypeNan = 10,
  kTypeNumericalNote = 11,
  kTypePointwiseMode = 14,
  kTypeDescriptor = 15,
  kTypeChar = 24,
};

/// cudnnDataType_t, cudnnConvolutionMode_t, cudnnPointwiseMode_t, cudnnNanPropagation_t,
/// cudnnBackendHeurMode_t.
enum DataType : int { kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 9 };
enum ConvolutionMode : int { kCrossCorrelation = 1 };
enum PointwiseMode : int { kAdd = 0, kRelu = 100 };
enum NanPropagation : int { kPropagateNan = 1 };
enum HeuristicsMode : int { kFallback = 2, kModeA = 3 };

/// cudnnBackendNumericalNote_t.
enum NumericalNote : int {
  kTensorCore = 0,
  kDownConvertInputs = 1,
  kReducedPrecisionReduction = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kWinograd4x4 = 6,
  kWinograd6x6 = 7,
  kWinograd13x13 = 8,
  kStrictNanPropagation = 9,
};

} // namespace cudnn

/// The library, open as long as this lives.
class CudnnLibrary {
public:
  /// Opens libcudnn_graph.so.9: in `folder` alone where one is given, else where the dynamic linker
  /// looks, then in /usr/local/cuda. Throws Error(BadInput) saying what was tried, how to get it and, in
  /// the words of `nextStep`, how to say where it is.
  static std::shared_ptr<const CudnnLibrary>
  open(const std::string &folder,
       const std::string &nextStep = "with --cudnn=FOLDER; no GPU and no driver is needed");

  ~CudnnLibrary();
  CudnnLibrary(const CudnnLibrary &) = delete;
  CudnnLibrary &operator=(const CudnnLibrary &) = delete;

  /// 91900 is 9.19.0.
  int64_t versionNumber() const { return static_cast<int64_t>(getVersion()); }
  /// "9.19.0".
  std::string version() const { return versionText(versionNumber()); }
  static std::string versionText(int64_t number);

  /// What the library says about its last failure, on one line.
  std::string lastError(int status) const;

  int (*create)(int type, void **descriptor) = nullptr;
  int (*destroy)(void *descriptor) = nullptr;
  int (*finalize)(void *descriptor) = nullptr;
  int (*setAttribute)(void *descriptor, int name, int type, int64_t count,
                      const void *values) = nullptr;
  int (*getAttribute)(void *descriptor, int name, int type, int64_t room, int64_t *count,
                      void *values) = nullptr;

  // With a device: a handle is a cudnnHandle_t.
  int (*createHandle)(void **handle) = nullptr;
  int (*destroyHandle)(void *handle) = nullptr;
  int (*setStream)(void *handle, void *stream) = nullptr;
  int (*execute)(void *handle, void *plan, void *variantPack) = nullptr;

private:
  CudnnLibrary() = default;

  void *handle = nullptr;
  size_t (*getVersion)() = nullptr;
  const char *(*errorString)(int status) = nullptr;
  void (*lastErrorString)(char *text, size_t room) = nullptr;
};

/// One descriptor of the backend interface. What fails throws Error(BadInput) with the library's
/// reason.
class CudnnDescriptor {
public:
  CudnnDescriptor(const CudnnLibrary &library, cudnn::DescriptorType type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor &&other) noexcept;
  CudnnDescriptor(const CudnnDescriptor &) = delete;
  CudnnDescriptor &operator=(const CudnnDescriptor &) = delete;

  void set(int name, cudnn::AttributeType type, int64_t count, const void *values);
  void set(int name, int64_t value) { set(name, cudnn::kTypeInt64, 1, &value); }
  void set(int name, const std::vector<int64_t> &values) {
    set(name, cudnn::kTypeInt64, static_cast<int64_t>(values.size()), values.data());
  }
  void set(int name, const CudnnDescriptor &other) {
    set(name, cudnn::kTypeDescriptor, 1, &other.raw);
  }
  void set(int name, cudnn::AttributeType type, int value) { set(name, type, 1, &value); }

  void finalize();
  /// False, with the library's reason in `why`, where it refuses.
  bool tryFinalize(std::string &why);

  /// Up to `room` values, and how many there are.
  int64_t get(int name, cudnn::AttributeType type, int64_t room, void *values) const;

  void *raw = nullptr;

private:
  const CudnnLibrary *library;
};

} // namespace stow::cuda
