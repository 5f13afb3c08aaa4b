#include "codegen/cuda/CudnnPlans.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/base/Text.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <set>
#include <tuple>

namespace stow::cuda {
namespace {

/// Most configurations that cuDNN's heuristics are asked for; 37 is the most seen.
constexpr int64_t kMostConfigs = 128;

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
  return absl::StrCat("engine ", engine.integer("engineId"),
                      knobs.empty() ? "" : " (" + knobs + ")");
}

/// Kernels of clusters of blocks, which Hopper and later have, split the inner extent by how many clusters the device at hand runs at once.
/// A description of the device does not say that, and deviceless planning states the scratch of fewer parts: of ResNet-50 in bf16 at
/// batch 128, cuDNN 9.19 stated 0 to 1,179,843 bytes for 33 weight gradients and 131 for 2 convolutions that took 1,835,615 to
/// 7,668,375 and 8,389,023 on an H200. Partial results are tiles of up to 128 x 256 sums in f32, one for each multiprocessor, and no
/// call was seen to take more than 13 times its result.
Bytes mostScratchOf(Bytes stated, const Engine &engine, const Convolution &convolution,
                    int64_t multiprocessors) {
  constexpr int64_t kKnobClusterRows = 27,
                    kKnobClusterColumns = 28; // CUDNN_KNOB_TYPE_TILE_CGA_M, _N
  constexpr Bytes kTile = Bytes{128} * 256 * 4, kMostParts = 16, kCounters = 1024;
  const bool hasClusters = std::ranges::any_of(engine.knobs, [](const auto &knob) {
    return knob.first == kKnobClusterRows || knob.first == kKnobClusterColumns;
  });
  if (!hasClusters)
    return stated;
  const StridedTensor &result = convolution.kind == ConvolutionKind::Forward ? convolution.y
                                : convolution.kind == ConvolutionKind::GradInput
                                    ? convolution.x
                                    : convolution.weight;
  Bytes sums = 4;
  for (int64_t extent : result.shape)
    sums *= extent;
  return stated + std::min(multiprocessors * kTile, kMostParts * sums) + kCounters;
}

std::string jsonOf(const CudnnDescriptor &plan) {
  std::string text(plan.get(cudnn::kPlanJson, cudnn::kTypeChar, 0, nullptr), '\0');
  text.resize(
      plan.get(cudnn::kPlanJson, cudnn::kTypeChar, static_cast<int64_t>(text.size()), text.data()));
  while (!text.empty() && text.back() == '\0')
    text.pop_back();
  return text;
}

} // namespace

CudnnPlans::CudnnPlans(std::shared_ptr<const CudnnLibrary> opened, const Chip &described,
                       F32Products products)
    : library(std::move(opened)), chip(described.name), products(products),
      device(*library, cudnn::kDevice) {
  const std::string &json = described.deviceJson;
  device.set(cudnn::kDeviceJson, cudnn::kTypeChar, static_cast<int64_t>(json.size()), json.data());
  std::string why;
  if (!device.tryFinalize(why)) {
    // Seen of 9.28.1, whose engines that are compiled at run time are linked against the driver; 9.26.1 plans without one.
    if (why.find("SUBLIBRARY_LOADING_FAILED") != std::string::npos)
      why += "; one of its libraries does not load: from 9.28 on they need the driver's "
             "libcuda.so.1, also to plan; expected a machine with the driver, or cuDNN 9.26: pip "
             "install \"nvidia-cudnn-cu13<9.27\"";
    throw Error::badInput("cuDNN " + version() + " does not take the description of " + chip +
                          ": " + why);
  }
  const Json document = parseJson(json, "the description of " + chip);
  multiprocessors = JsonNode(document, "the description of " + chip).integer("multiProcessorCount");
}

const std::vector<EnginePlan> &CudnnPlans::of(const Convolution &convolution) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find(convolution);
  if (found == known.end())
    found = known.emplace(convolution, ask(convolution)).first;
  if (found->second.plans.empty())
    throw Error::badInput(found->second.refusal);
  return found->second.plans;
}

CudnnPlans &CudnnPlans::opened(const std::string &folder, const Chip &chip, F32Products products) {
  using Key = std::tuple<std::string, std::string, F32Products>;
  static std::mutex mutex;
  // Never destroyed: the library may be gone by then.
  static auto &all = *new std::map<Key, std::unique_ptr<CudnnPlans>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<CudnnPlans> &plans = all[{folder, chip.deviceJson, products}];
  if (!plans)
    plans = std::make_unique<CudnnPlans>(CudnnLibrary::open(folder), chip, products);
  return *plans;
}

CudnnPlans::Answer CudnnPlans::ask(const Convolution &convolution) const {
  const std::string about = "cuDNN " + version() + " for " + chip + ", " + describe(convolution);
  std::vector<EnginePlan> plans;
  std::set<std::string> identities, objections;
  std::string why;
  const PlanSite site{nullptr, &device};
  auto add = [&](const CudnnDescriptor &graph, const Engine &engine, bool isFallback) {
    const std::string against =
        objectionTo(*library, graph, engine, site, convolution.operandType(), products);
    if (!against.empty()) {
      objections.insert(against);
      return;
    }
    const CudnnDescriptor plan = executionPlan(*library, graph, engine, site);
    EnginePlan found{identityOf(jsonOf(plan)),
                     mostScratchOf(workspaceOf(plan), engine, convolution, multiprocessors),
                     static_cast<int>(plans.size()), isFallback, engine};
    if (identities.insert(found.identity).second)
      plans.push_back(std::move(found));
  };
  try {
    const CudnnDescriptor graph = operationGraph(*library, convolution, site);
    for (cudnn::HeuristicsMode mode : {cudnn::kModeA, cudnn::kFallback})
      for (const CudnnDescriptor &config : configsOf(*library, graph, device, mode, why)) {
        try {
          add(graph, engineOf(*library, config), mode == cudnn::kFallback);
        } catch (const Error &error) { // an engine that does not take these operands after all
          why = error.what();
        }
      }
  } catch (const Error &error) {
    return {{}, about + ": " + error.what()};
  }
  if (plans.empty() && !objections.empty())
    return {{},
            about + ": every engine is inexact or has results that vary (" +
                joined({objections.begin(), objections.end()}) + ")"};
  if (plans.empty())
    return {{}, about + ": no engine takes it: " + why};
  return {std::move(plans), ""};
}

} // namespace stow::cuda
