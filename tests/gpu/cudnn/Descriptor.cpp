#include "tests/gpu/cudnn/Descriptor.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <set>

using namespace stow::cuda::cudnn;

namespace stow::sim {
namespace {

constexpr int kKnobSplitKBuffers = 12; ///< CUDNN_KNOB_TYPE_SPLIT_K_BUF

/// Descriptor and value type of each attribute that is taken.
struct Known {
  int name, owner, type;
};
constexpr Known kAttributes[] = {
    {kPointwiseMode, kPointwise, kTypePointwiseMode},
    {kPointwiseComputeType, kPointwise, kTypeDataType},
    {kPointwiseNan, kPointwise, kTypeNan},
    {kPointwiseOf, kPointwiseOperation, kTypeDescriptor},
    {kPointwiseX, kPointwiseOperation, kTypeDescriptor},
    {kPointwiseB, kPointwiseOperation, kTypeDescriptor},
    {kPointwiseY, kPointwiseOperation, kTypeDescriptor},
    {kConvolutionComputeType, kConvolution, kTypeDataType},
    {kConvolutionMode, kConvolution, kTypeConvolutionMode},
    {kConvolutionDilations, kConvolution, kTypeInt64},
    {kConvolutionStrides, kConvolution, kTypeInt64},
    {kConvolutionPadsAfter, kConvolution, kTypeInt64},
    {kConvolutionPadsBefore, kConvolution, kTypeInt64},
    {kConvolutionSpatialDims, kConvolution, kTypeInt64},
    {kHeuristicsMode, kHeuristics, kTypeHeuristicsMode},
    {kHeuristicsGraph, kHeuristics, kTypeDescriptor},
    {kHeuristicsDevice, kHeuristics, kTypeDescriptor},
    {kEngineConfigEngine, kEngineConfig, kTypeDescriptor},
    {kEngineConfigKnobs, kEngineConfig, kTypeDescriptor},
    {kPlanHandle, kExecutionPlan, kTypeHandle},
    {kPlanEngineConfig, kExecutionPlan, kTypeDescriptor},
    {kPlanDevice, kExecutionPlan, kTypeDescriptor},
    {kKnobType, kKnobChoice, kTypeKnob},
    {kKnobValue, kKnobChoice, kTypeInt64},
    {kGraphHandle, kOperationGraph, kTypeHandle},
    {kGraphOperations, kOperationGraph, kTypeDescriptor},
    {kTensorAlignment, kTensor, kTypeInt64},
    {kTensorType, kTensor, kTypeDataType},
    {kTensorShape, kTensor, kTypeInt64},
    {kTensorStrides, kTensor, kTypeInt64},
    {kTensorId, kTensor, kTypeInt64},
    {kTensorIsVirtual, kTensor, kTypeBoolean},
    {kVariantPackIds, kVariantPack, kTypeInt64},
    {kVariantPackPointers, kVariantPack, kTypePointer},
    {kVariantPackWorkspace, kVariantPack, kTypePointer},
    {kEngineGraph, kEngine, kTypeDescriptor},
    {kEngineIndex, kEngine, kTypeInt64},
    {kEngineDevice, kEngine, kTypeDescriptor},
    {kDeviceJson, kDevice, kTypeChar},
};

size_t sizeOfType(int type) {
  switch (type) {
  case kTypeDataType:
  case kTypeConvolutionMode:
  case kTypeHeuristicsMode:
  case kTypeKnob:
  case kTypeFloat:
  case kTypePointwiseMode:
  case kTypeNan:
    return 4;
  case kTypeChar:
  case kTypeBoolean:
    return 1;
  default:
    return 8;
  }
}

/// The first attribute of an operation, its alpha; the others follow.
int alphaOf(int operation) {
  return operation == kForwardOperation     ? kForwardAlpha
         : operation == kGradInputOperation ? kGradInputAlpha
                                            : kGradWeightAlpha;
}

bool isOperation(int type) {
  return type == kForwardOperation || type == kGradInputOperation || type == kGradWeightOperation;
}

/// The value type of attribute `name` of a descriptor, or Refusal.
int typeOf(int owner, int name, int given) {
  if (isOperation(owner)) {
    const int place = name - alphaOf(owner);
    if (place == 0 || place == 1)
      return given == kTypeDouble ? kTypeDouble : kTypeFloat;
    if (place > 1 && place < 6)
      return kTypeDescriptor;
  }
  for (const Known &known : kAttributes)
    if (known.name == name && known.owner == owner)
      return known.type;
  throw CudnnRefusal(kBadParam, concat("descriptor ", owner, " has no attribute ", name));
}

DType dtypeOf(int64_t type) {
  switch (type) {
  case kFloat:
    return DType::F32;
  case kDouble:
    return DType::F64;
  case kHalf:
    return DType::F16;
  case kBfloat16:
    return DType::BF16;
  default:
    throw CudnnRefusal(kNotSupported, concat("data type ", type));
  }
}

ConvolutionTensor tensorOf(const Descriptor &from) {
  ConvolutionTensor tensor;
  tensor.type = dtypeOf(from.integer(kTensorType));
  tensor.shape = from.integers(kTensorShape), tensor.strides = from.integers(kTensorStrides);
  tensor.alignment = from.integer(kTensorAlignment), tensor.id = from.integer(kTensorId);
  tensor.isVirtual = from.has(kTensorIsVirtual) && from.integer(kTensorIsVirtual) != 0;
  return tensor;
}

const StandInEngine *findEngine(int64_t index) {
  for (const StandInEngine &engine : standInEngines())
    if (engine.index == index)
      return &engine;
  return nullptr;
}

int64_t environment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

} // namespace

bool hasEngines(const ConvolutionWork &work) { return work.bias || (!work.added && !work.hasRelu); }

/// The first runs on small devices alone, an A100 and no H100. The second is fast and not deterministic, the
/// third needs scratch, the fourth little, and the fifth is for tensor cores: what the compiler has to leave out
/// lies among what it may take.
const std::vector<StandInEngine> &standInEngines() {
  static const std::vector<StandInEngine> engines = {
      {14, false, {}, {}, "", /*belowMultiprocessors=*/128},
      {10, false, {kNondeterministic}, {}, ""},
      {11, false, {}, {{kKnobSplitKBuffers, 2}}, "CUDNN_KNOB_TYPE_SPLIT_K_BUF"},
      {12, false, {kStrictNanPropagation}, {}, ""},
      {13, false, {kTensorCore}, {}, ""},
      {0, true, {}, {}, ""},
  };
  return engines;
}

Descriptor::Descriptor(int type) : type(type) {
  constexpr int kTypes[] = {kPointwise,
                            kPointwiseOperation,
                            kConvolution,
                            kEngine,
                            kEngineConfig,
                            kHeuristics,
                            kExecutionPlan,
                            kKnobChoice,
                            kForwardOperation,
                            kGradInputOperation,
                            kGradWeightOperation,
                            kOperationGraph,
                            kVariantPack,
                            kTensor,
                            kDevice};
  if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes))
    throw CudnnRefusal(kNotSupported, concat("descriptors of type ", type));
}

void Descriptor::set(int name, int given, int64_t count, const void *values) {
  if (isFinal)
    throw CudnnRefusal(kBadParam, "the descriptor is final");
  if (const int wanted = typeOf(type, name, given); given != wanted)
    throw CudnnRefusal(kBadParam,
                       concat("attribute ", name, " is of type ", wanted, ", not ", given));
  if (count < 1 || !values)
    throw CudnnRefusal(kBadParam, concat("attribute ", name, " has no values"));
  Attribute attribute{given, count, {}, {}};
  if (given == kTypeDescriptor) {
    for (int64_t i = 0; i < count; ++i) {
      const auto *child = static_cast<Descriptor *const *>(values)[i];
      if (!child || !child->isFinal)
        throw CudnnRefusal(kBadParam,
                           concat("attribute ", name, " is a descriptor that is not final"));
      attribute.children.push_back(std::make_shared<Descriptor>(*child));
    }
  } else {
    attribute.bytes.resize(static_cast<size_t>(count) * sizeOfType(given));
    std::memcpy(attribute.bytes.data(), values, attribute.bytes.size());
  }
  attributes[name] = std::move(attribute);
}

const Attribute &Descriptor::at(int name) const {
  auto found = attributes.find(name);
  if (found == attributes.end())
    throw CudnnRefusal(kBadParam, concat("descriptor ", type, " needs attribute ", name));
  return found->second;
}

std::vector<int64_t> Descriptor::integers(int name) const {
  const Attribute &attribute = at(name);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < attribute.count; ++i) {
    if (sizeOfType(attribute.type) == 1) {
      values.push_back(attribute.bytes[static_cast<size_t>(i)]);
    } else if (sizeOfType(attribute.type) == 4) {
      int32_t value = 0;
      std::memcpy(&value, attribute.bytes.data() + 4 * i, 4);
      values.push_back(value);
    } else {
      int64_t value = 0;
      std::memcpy(&value, attribute.bytes.data() + 8 * i, 8);
      values.push_back(value);
    }
  }
  return values;
}

int64_t Descriptor::integer(int name) const { return integers(name).front(); }

//===-- Finalizing ----------------------------------------------------------------------------===//

void Descriptor::finalize(std::optional<int> atHand) {
  if (isFinal)
    throw CudnnRefusal(kBadParam, "the descriptor is final already");
  switch (type) {
  case kTensor:
    finalizeTensor();
    break;
  case kForwardOperation:
  case kGradInputOperation:
  case kGradWeightOperation:
    finalizeOperation();
    break;
  case kPointwise:
    finalizeFunction();
    break;
  case kPointwiseOperation:
    finalizePointwise();
    break;
  case kOperationGraph:
    finalizeGraph();
    break;
  case kHeuristics:
    work = child(kHeuristicsGraph).work;
    at(kHeuristicsMode), at(kHeuristicsDevice);
    break;
  case kEngine:
    finalizeEngine();
    break;
  case kEngineConfig:
    finalizeConfig();
    break;
  case kKnobChoice:
    at(kKnobType), at(kKnobValue);
    break;
  case kExecutionPlan:
    finalizePlan(atHand);
    break;
  case kVariantPack:
    finalizePack();
    break;
  case kDevice: {
    const std::vector<char> &text = at(kDeviceJson).bytes;
    try {
      const Json json = parseJson({text.data(), text.size()}, "device");
      multiprocessors = static_cast<int>(JsonNode(json, "device").count("multiProcessorCount"));
    } catch (const Error &error) {
      throw CudnnRefusal(kBadParam, error.what());
    }
    break;
  }
  default: // windows are checked with their operation
    break;
  }
  isFinal = true;
}

void Descriptor::finalizeTensor() const {
  const ConvolutionTensor tensor = tensorOf(*this);
  if (tensor.shape.size() != tensor.strides.size() || tensor.shape.size() < 3)
    throw CudnnRefusal(kBadParam, "a tensor's shape and strides do not agree");
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    if (tensor.shape[i] < 1 || tensor.strides[i] < 1)
      throw CudnnRefusal(kBadParam, "a tensor has extents or strides below 1");
  if (tensor.alignment < stow::sizeOf(tensor.type) ||
      !std::has_single_bit(static_cast<uint64_t>(tensor.alignment)))
    throw CudnnRefusal(kBadParam, "a tensor's alignment is no power of 2 from its type's size on");
}

void Descriptor::finalizeOperation() {
  const int alpha = alphaOf(type);
  auto factor = [&](int name) {
    const Attribute &attribute = at(name);
    if (attribute.type == kTypeDouble)
      return std::bit_cast<double>(integers(name).front());
    return static_cast<double>(std::bit_cast<float>(static_cast<int32_t>(integers(name).front())));
  };
  if (factor(alpha) != 1 || factor(alpha + 1) != 0)
    throw CudnnRefusal(kNotSupported, "factors other than 1 and 0");
  const Descriptor &window = child(alpha + 2);
  work.result = type == kForwardOperation     ? ConvolutionResult::Y
                : type == kGradInputOperation ? ConvolutionResult::X
                                              : ConvolutionResult::Weight;
  work.weight = tensorOf(child(alpha + 3));
  work.x = tensorOf(child(alpha + 4)), work.y = tensorOf(child(alpha + 5));
  work.strides = window.integers(kConvolutionStrides);
  work.dilations = window.integers(kConvolutionDilations);
  work.padsBefore = window.integers(kConvolutionPadsBefore);
  work.padsAfter = window.integers(kConvolutionPadsAfter);
  if (window.integer(kConvolutionSpatialDims) != static_cast<int64_t>(work.strides.size()))
    throw CudnnRefusal(kBadParam, "the window's dimensions do not agree");
  if (window.integer(kConvolutionMode) != kCrossCorrelation)
    throw CudnnRefusal(kNotSupported, "only cross-correlation");
  const DType sums = work.x.type == DType::F64 ? DType::F64 : DType::F32;
  if (dtypeOf(window.integer(kConvolutionComputeType)) != sums)
    throw CudnnRefusal(kNotSupported, "sums of another type");
}

void Descriptor::finalizeFunction() const {
  const int64_t mode = integer(kPointwiseMode);
  if (mode != kAdd && mode != kRelu)
    throw CudnnRefusal(kNotSupported, concat("elementwise function ", mode));
  if (dtypeOf(integer(kPointwiseComputeType)) != DType::F32)
    throw CudnnRefusal(kNotSupported, "elementwise functions in another type than f32");
  if (mode == kRelu && (!has(kPointwiseNan) || integer(kPointwiseNan) != kPropagateNan))
    throw CudnnRefusal(kNotSupported, "a maximum that loses what is no number");
}

void Descriptor::finalizePointwise() {
  const bool isSum = child(kPointwiseOf).integer(kPointwiseMode) == kAdd;
  if (isSum != has(kPointwiseB))
    throw CudnnRefusal(kBadParam, "a sum has two operands, a maximum with 0 one");
  pointwise = {tensorOf(child(kPointwiseX)), tensorOf(child(kPointwiseY)), {}};
  if (isSum)
    pointwise.b = tensorOf(child(kPointwiseB));
  if (pointwise.x.shape != pointwise.y.shape)
    throw CudnnRefusal(kBadParam, "extents of an elementwise function's operands do not agree");
}

/// A convolution, or one that goes through elementwise functions: what it is in between has no memory and f32.
void Descriptor::finalizeGraph() {
  const std::vector<DescriptorPtr> &operations = at(kGraphOperations).children;
  work = operations.front()->work;
  if (operations.front()->type == kPointwiseOperation ||
      (operations.size() > 1 && work.result != ConvolutionResult::Y))
    throw CudnnRefusal(kNotSupported, "graphs that do not begin with a convolution");
  for (size_t i = 1; i < operations.size(); ++i) {
    const Descriptor &operation = *operations[i];
    if (operation.type != kPointwiseOperation)
      throw CudnnRefusal(kNotSupported, "graphs of several convolutions");
    const PointwiseWork &step = operation.pointwise;
    if (step.x.id != work.y.id)
      throw CudnnRefusal(kNotSupported, "graphs that are no chain");
    if (!step.x.isVirtual || step.x.type != DType::F32)
      throw CudnnRefusal(kNotSupported, "what lies between operations has memory or is not in f32");
    const bool isBias =
        step.b && step.b->elements() == step.y.shape[1] && step.b->shape != step.y.shape;
    std::optional<ConvolutionTensor> &role = isBias ? work.bias : work.added;
    if (work.hasRelu || (step.b && (role || work.bias)))
      throw CudnnRefusal(kNotSupported, "other chains than sum, bias and maximum in this order");
    if (step.b)
      role = step.b;
    else
      work.hasRelu = true;
    work.y = step.y;
  }
  for (const ConvolutionTensor &stored : {work.x, work.weight, work.y})
    if (stored.isVirtual)
      throw CudnnRefusal(kBadParam, "an operand of the graph has no memory");
  if (const std::string why = work.complaint(); !why.empty())
    throw CudnnRefusal(kBadParam, why);
}

void Descriptor::finalizeEngine() {
  work = child(kEngineGraph).work;
  engine = integer(kEngineIndex);
  if (!hasEngines(work))
    throw CudnnRefusal(kNotSupported, "no engine without a bias");
  if (!findEngine(engine) || engine == environment("STANDIN_CUDNN_WITHOUT", -1))
    throw CudnnRefusal(kNotSupported, concat("no engine ", engine));
}

void Descriptor::finalizeConfig() {
  work = child(kEngineConfigEngine).work;
  engine = child(kEngineConfigEngine).engine;
  const StandInEngine &known = *findEngine(engine);
  for (auto [name, value] : known.knobs)
    knobs[name] = value;
  if (!has(kEngineConfigKnobs))
    return;
  for (const DescriptorPtr &choice : at(kEngineConfigKnobs).children) {
    const int name = static_cast<int>(choice->integer(kKnobType));
    const int64_t value = choice->integer(kKnobValue);
    if (!knobs.contains(name) || value < 1 || value > 8)
      throw CudnnRefusal(kBadParam,
                         concat("engine ", engine, " has no knob ", name, " of value ", value));
    knobs[name] = value;
  }
}

void Descriptor::finalizePlan(std::optional<int> atHand) {
  const Descriptor &config = child(kPlanEngineConfig);
  work = config.work, engine = config.engine, knobs = config.knobs;
  isForHandle = has(kPlanHandle);
  if (has(kPlanDevice))
    multiprocessors = child(kPlanDevice).multiprocessors;
  else if (isForHandle && atHand)
    multiprocessors = *atHand;
  else
    throw CudnnRefusal(kBadParam, "a plan needs a handle or a device's properties");
  if (multiprocessors >= findEngine(engine)->belowMultiprocessors)
    throw CudnnRefusal(kNotSupported, concat("engine ", engine, " does not run on a device with ",
                                             multiprocessors, " multiprocessors"));
  workspaceBytes = workspaceBytesOf(*this);
}

void Descriptor::finalizePack() const {
  const std::vector<int64_t> ids = integers(kVariantPackIds);
  if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size())
    throw CudnnRefusal(kBadParam, "identifiers are not unique");
  if (at(kVariantPackPointers).count != static_cast<int64_t>(ids.size()))
    throw CudnnRefusal(kBadParam, "pointers and identifiers do not agree");
  at(kVariantPackWorkspace);
}

//===-- Plans ---------------------------------------------------------------------------------===//

int64_t workspaceBytesOf(const Descriptor &plan) {
  const int64_t more = environment("STANDIN_CUDNN_MORE_SCRATCH", 0);
  if (plan.engine == 14)
    return 144 + more;
  if (plan.engine == 12)
    return 288 + more;
  if (plan.engine != 11)
    return more;
  const ConvolutionWork &work = plan.work;
  const ConvolutionTensor &result = work.result == ConvolutionResult::Y   ? work.y
                                    : work.result == ConvolutionResult::X ? work.x
                                                                          : work.weight;
  constexpr int64_t kSumBytes = 4;
  return plan.knobs.at(kKnobSplitKBuffers) * result.elements() * kSumBytes + plan.multiprocessors -
         1 + more;
}

std::string jsonOf(const Descriptor &plan) {
  const StandInEngine &engine = *findEngine(plan.engine);
  std::string knobs;
  for (auto [name, value] : plan.knobs)
    append(knobs, "\"", engine.knobName, "\":", value);
  return concat("{\"engine\":{\"engineId\":", plan.engine, ",\"knobChoices\":{", knobs, "}}}");
}

} // namespace stow::sim
