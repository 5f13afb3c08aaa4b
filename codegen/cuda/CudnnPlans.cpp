#include "codegen/cuda/CudnnPlans.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <set>

namespace stow::cuda {
namespace {

using cudnn::NumericalNote;

/// Most configurations that cuDNN's heuristics are asked for; 37 is the most seen.
constexpr int64_t kMostConfigs = 128;

cudnn::DataType dataType(DType type) {
  switch (type) {
  case DType::F64:
    return cudnn::kDouble;
  case DType::F32:
    return cudnn::kFloat;
  case DType::F16:
    return cudnn::kHalf;
  case DType::BF16:
    return cudnn::kBfloat16;
  default:
    throw Error::badInput("cuDNN convolves f64, f32, bf16 and f16; found " +
                          std::string(nameOf(type)));
  }
}

cudnn::DataType sumType(DType type) { return type == DType::F64 ? cudnn::kDouble : cudnn::kFloat; }

CudnnDescriptor tensor(const CudnnLibrary &library, const StridedTensor &from, int64_t id) {
  constexpr int64_t kAlignment = 64; // that of every buffer of an arena
  CudnnDescriptor made(library, cudnn::kTensor);
  made.set(cudnn::kTensorType, cudnn::kTypeDataType, dataType(from.type));
  made.set(cudnn::kTensorShape, from.shape);
  made.set(cudnn::kTensorStrides, from.strides);
  made.set(cudnn::kTensorId, id);
  made.set(cudnn::kTensorAlignment, kAlignment);
  made.finalize();
  return made;
}

CudnnDescriptor window(const CudnnLibrary &library, const Convolution &of) {
  CudnnDescriptor made(library, cudnn::kConvolution);
  made.set(cudnn::kConvolutionSpatialDims, static_cast<int64_t>(of.strides.size()));
  made.set(cudnn::kConvolutionComputeType, cudnn::kTypeDataType, sumType(of.operandType()));
  made.set(cudnn::kConvolutionMode, cudnn::kTypeConvolutionMode, cudnn::kCrossCorrelation);
  made.set(cudnn::kConvolutionPadsBefore, of.padsBefore);
  made.set(cudnn::kConvolutionPadsAfter, of.padsAfter);
  made.set(cudnn::kConvolutionDilations, of.dilations);
  made.set(cudnn::kConvolutionStrides, of.strides);
  made.finalize();
  return made;
}

/// The three operations have their attributes in the same order from `alpha` on: alpha, beta, the
/// window, the weight, x, y.
CudnnDescriptor operationGraph(const CudnnLibrary &library, const Convolution &of) {
  const CudnnDescriptor x = tensor(library, of.x, 'x'), weight = tensor(library, of.weight, 'w'),
                        y = tensor(library, of.y, 'y'), convolution = window(library, of);
  const auto [type, alpha] = of.kind == ConvolutionKind::Forward
                                 ? std::pair(cudnn::kForwardOperation, cudnn::kForwardAlpha)
                             : of.kind == ConvolutionKind::GradInput
                                 ? std::pair(cudnn::kGradInputOperation, cudnn::kGradInputAlpha)
                                 : std::pair(cudnn::kGradWeightOperation, cudnn::kGradWeightAlpha);
  CudnnDescriptor operation(library, type);
  const double factors[] = {1, 0};
  const float narrow[] = {1, 0};
  for (int i = 0; i < 2; ++i)
    if (of.operandType() == DType::F64)
      operation.set(alpha + i, cudnn::kTypeDouble, 1, &factors[i]);
    else
      operation.set(alpha + i, cudnn::kTypeFloat, 1, &narrow[i]);
  operation.set(alpha + 2, convolution);
  operation.set(alpha + 3, weight);
  operation.set(alpha + 4, x);
  operation.set(alpha + 5, y);
  operation.finalize();
  CudnnDescriptor graph(library, cudnn::kOperationGraph);
  graph.set(cudnn::kGraphOperations, operation);
  graph.finalize();
  return graph;
}

std::vector<CudnnDescriptor> configsOf(const CudnnLibrary &library, const CudnnDescriptor &graph,
                                       const CudnnDescriptor &device, cudnn::HeuristicsMode mode,
                                       std::string &why) {
  CudnnDescriptor heuristics(library, cudnn::kHeuristics);
  heuristics.set(cudnn::kHeuristicsGraph, graph);
  heuristics.set(cudnn::kHeuristicsMode, cudnn::kTypeHeuristicsMode, mode);
  heuristics.set(cudnn::kHeuristicsDevice, device);
  std::vector<CudnnDescriptor> configs;
  if (!heuristics.tryFinalize(why))
    return configs;
  std::vector<void *> raw;
  for (int64_t i = 0; i < kMostConfigs; ++i) {
    configs.emplace_back(library, cudnn::kEngineConfig);
    raw.push_back(configs.back().raw);
  }
  const int64_t count =
      heuristics.get(cudnn::kHeuristicsResults, cudnn::kTypeDescriptor, kMostConfigs, raw.data());
  while (static_cast<int64_t>(configs.size()) > count)
    configs.pop_back();
  return configs;
}

std::vector<int> notesOf(const CudnnLibrary &library, const CudnnDescriptor &config) {
  CudnnDescriptor engine(library, cudnn::kEngine);
  config.get(cudnn::kEngineConfigEngine, cudnn::kTypeDescriptor, 1, &engine.raw);
  constexpr int64_t kMostNotes = 32;
  std::vector<int> notes(kMostNotes);
  const int64_t count =
      engine.get(cudnn::kEngineNumericalNotes, cudnn::kTypeNumericalNote, kMostNotes, notes.data());
  notes.resize(std::min(count, kMostNotes));
  return notes;
}

/// What a note says against an engine; empty where it says nothing.
std::string objection(int note, DType type, F32Products products) {
  const bool isExactF32 = type == DType::F32 && products == F32Products::Exact;
  switch (note) {
  case cudnn::kStrictNanPropagation:
    return "";
  case cudnn::kTensorCore:
    return isExactF32 ? "TF32 products" : "";
  case cudnn::kDownConvertInputs:
    return type == DType::F32 && products == F32Products::Tf32 ? "" : "narrowed operands";
  case cudnn::kReducedPrecisionReduction:
    return "sums below f32";
  case cudnn::kFft:
    return "Fourier transforms";
  case cudnn::kNondeterministic:
    return "results that differ from run to run";
  case cudnn::kWinograd:
  case cudnn::kWinograd4x4:
  case cudnn::kWinograd6x6:
  case cudnn::kWinograd13x13:
    return "Winograd's transforms";
  default:
    return "numerical note " + std::to_string(note);
  }
}

/// "engine 28 (KBLOCK=2, STAGES=5)".
std::string identityOf(const std::string &json) {
  const Json document = parseJson(json, "cuDNN plan");
  const JsonNode engine = JsonNode(document, "cuDNN plan").at("engine");
  std::string knobs;
  engine.forEachMember("knobChoices", [&](const std::string &name, const JsonNode &value) {
    constexpr std::string_view kPrefix = "CUDNN_KNOB_TYPE_";
    const bool hasPrefix = std::string_view(name).starts_with(kPrefix);
    knobs += (knobs.empty() ? "" : ", ") + (hasPrefix ? name.substr(kPrefix.size()) : name) + "=" +
             dumpJson(value.value(), -1);
  });
  return "engine " + std::to_string(engine.integer("engineId")) +
         (knobs.empty() ? "" : " (" + knobs + ")");
}

std::string jsonOf(const CudnnDescriptor &plan) {
  std::string text(plan.get(cudnn::kPlanJson, cudnn::kTypeChar, 0, nullptr), '\0');
  text.resize(
      plan.get(cudnn::kPlanJson, cudnn::kTypeChar, static_cast<int64_t>(text.size()), text.data()));
  while (!text.empty() && text.back() == '\0')
    text.pop_back();
  return text;
}

std::string describe(const Convolution &of) {
  constexpr const char *kKinds[] = {"convolution", "data gradient", "weight gradient"};
  auto shape = [](const StridedTensor &tensor) {
    std::string text;
    for (int64_t size : tensor.shape)
      text += (text.empty() ? "" : "x") + std::to_string(size);
    return text;
  };
  return std::string(kKinds[static_cast<int>(of.kind)]) + " of " +
         std::string(nameOf(of.operandType())) + ", x " + shape(of.x) + ", weight " +
         shape(of.weight) + ", y " + shape(of.y);
}

} // namespace

CudnnPlans::CudnnPlans(std::shared_ptr<const CudnnLibrary> opened, const Chip &described,
                       F32Products products)
    : library(std::move(opened)), chip(described.name), products(products),
      device(*library, cudnn::kDevice) {
  const std::string &json = described.deviceJson;
  device.set(cudnn::kDeviceJson, cudnn::kTypeChar, static_cast<int64_t>(json.size()), json.data());
  std::string why;
  if (!device.tryFinalize(why))
    throw Error::badInput("cuDNN " + version() + " does not take the description of " + chip +
                          ": " + why);
}

const std::vector<EnginePlan> &CudnnPlans::of(const Convolution &convolution) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find(convolution);
  if (found == known.end())
    found = known.emplace(convolution, ask(convolution)).first;
  return found->second;
}

std::vector<EnginePlan> CudnnPlans::ask(const Convolution &convolution) const {
  const std::string about = "cuDNN " + version() + " for " + chip + ", " + describe(convolution);
  std::vector<EnginePlan> plans;
  std::set<std::string> identities, objections;
  std::string why;
  try {
    const CudnnDescriptor graph = operationGraph(*library, convolution);
    for (cudnn::HeuristicsMode mode : {cudnn::kModeA, cudnn::kFallback})
      for (const CudnnDescriptor &config : configsOf(*library, graph, device, mode, why)) {
        std::string against;
        for (int note : notesOf(*library, config))
          if (against.empty())
            against = objection(note, convolution.operandType(), products);
        if (!against.empty()) {
          objections.insert(against);
          continue;
        }
        CudnnDescriptor plan(*library, cudnn::kExecutionPlan);
        plan.set(cudnn::kPlanEngineConfig, config);
        plan.set(cudnn::kPlanDevice, device);
        if (!plan.tryFinalize(why))
          continue;
        EnginePlan found;
        plan.get(cudnn::kPlanWorkspaceBytes, cudnn::kTypeInt64, 1, &found.workspaceBytes);
        found.json = jsonOf(plan);
        found.identity = identityOf(found.json);
        found.position = static_cast<int>(plans.size());
        found.isFallback = mode == cudnn::kFallback;
        if (identities.insert(found.identity).second)
          plans.push_back(std::move(found));
      }
  } catch (const Error &error) {
    throw Error::badInput(about + ": " + error.what());
  }
  if (plans.empty() && !objections.empty())
    throw Error::badInput(about + ": every engine is inexact or has results that vary (" +
                          joined({objections.begin(), objections.end()}) + ")");
  if (plans.empty())
    throw Error::badInput(about + ": no engine takes it: " + why);
  return plans;
}

} // namespace stow::cuda
