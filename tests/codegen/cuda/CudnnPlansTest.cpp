// What cuDNN answers for GPUs that are not here, and how its refusals are told.
#include "codegen/cuda/CudnnPlans.h"
#include "runtime/base/Error.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif

namespace stow::cuda {
namespace {

using testing::Each;
using testing::HasSubstr;

#if __has_include(<cudnn_graph.h>)
/// The numbers of CudnnApi.h are those of the headers.
#define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
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
#undef SAME
#endif

enum class Order { ChannelsFirst, ChannelsLast };

StridedTensor image(std::vector<int64_t> shape, Order order) {
  const int64_t c = shape[1], h = shape[2], w = shape[3];
  std::vector<int64_t> strides = order == Order::ChannelsLast
                                     ? std::vector<int64_t>{h * w * c, 1, w * c, c}
                                     : std::vector<int64_t>{c * h * w, h * w, w, 1};
  return {std::move(shape), std::move(strides)};
}

/// The second stage's 3x3 convolution of a ResNet-18, 128 images.
Convolution middle(ConvolutionKind kind, DType type, Order order) {
  Convolution of;
  of.kind = kind;
  of.x = image({128, 64, 56, 56}, order);
  of.weight = image({64, 64, 3, 3}, order);
  of.y = of.x;
  of.x.type = of.weight.type = of.y.type = type;
  of.strides = of.dilations = of.padsBefore = of.padsAfter = {1, 1};
  return of;
}

Convolution withBias(Convolution of) {
  of.bias = {{1, of.y.shape[1], 1, 1}, {of.y.shape[1], 1, 1, 1}, of.y.type};
  return of;
}

Convolution withSum(Convolution of) {
  of.added = of.y;
  return of;
}

Convolution withRelu(Convolution of) {
  of.hasRelu = true;
  return of;
}

class CudnnPlansTest : public testing::Test {
protected:
  void SetUp() override {
    try {
      library = CudnnLibrary::open("");
    } catch (const Error &error) {
      GTEST_SKIP() << error.what();
    }
  }

  CudnnPlans plansFor(const char *chip, F32Products products = F32Products::Exact) const {
    return {library, requireChip(chip), products};
  }

  static std::vector<Bytes> workspaces(const std::vector<EnginePlan> &plans) {
    std::vector<Bytes> bytes;
    for (const EnginePlan &plan : plans)
      bytes.push_back(plan.workspaceBytes);
    return bytes;
  }

  std::shared_ptr<const CudnnLibrary> library;
};

TEST_F(CudnnPlansTest, WorkspacesAreThoseOfTheChip) {
  if (library->version() != "9.19.0")
    GTEST_SKIP() << "these bytes are cuDNN 9.19.0's; this is " << library->version();
  auto first = [&](const char *chip, ConvolutionKind kind) {
    return plansFor(chip).of(middle(kind, DType::BF16, Order::ChannelsLast)).front().workspaceBytes;
  };
  // Of kernels of clusters more than cuDNN states, 131 and 295,107 bytes on an h100 and 4,718,784 on a b200: a tile for each of 132 multiprocessors,
  // or 16 times the result.
  EXPECT_EQ(first("h100", ConvolutionKind::Forward), 131 + 132 * 128 * 256 * 4 + 1024);
  EXPECT_EQ(first("a100", ConvolutionKind::Forward), 0);
  EXPECT_EQ(first("h100", ConvolutionKind::GradWeight), 295'107 + 16 * 36'864 * 4 + 1024);
  EXPECT_EQ(first("a100", ConvolutionKind::GradWeight), 5'243'699);
  EXPECT_EQ(first("rtx4090", ConvolutionKind::GradWeight), 1'917'591);
  EXPECT_EQ(first("b200", ConvolutionKind::GradWeight), 4'718'784 + 16 * 36'864 * 4 + 1024);
}

/// cuDNN's exact f32 kernels want channels first: for the other order they copy x and y.
TEST_F(CudnnPlansTest, ExactF32ChannelsLastTakesCopies) {
  if (library->version() != "9.19.0")
    GTEST_SKIP() << "these bytes are cuDNN 9.19.0's; this is " << library->version();
  CudnnPlans plans = plansFor("h100");
  const auto &last = plans.of(middle(ConvolutionKind::Forward, DType::F32, Order::ChannelsLast));
  const auto &first = plans.of(middle(ConvolutionKind::Forward, DType::F32, Order::ChannelsFirst));
  EXPECT_EQ(last.front().workspaceBytes, 205'668'368);
  EXPECT_EQ(first.front().workspaceBytes, 0);
  EXPECT_THAT(first.front().identity, HasSubstr("engine 70 ("));
}

/// A program has an engine's number and knobs: the plan that is made of them is the heuristics' own.
TEST_F(CudnnPlansTest, EnginesAndKnobsMakeTheSamePlan) {
  int64_t compared = 0;
  for (const char *chip : {"a100", "b200", "h100", "h200", "rtx4090"}) {
    const std::string json = requireChip(chip).deviceJson;
    CudnnDescriptor device(*library, cudnn::kDevice);
    device.set(cudnn::kDeviceJson, cudnn::kTypeChar, static_cast<int64_t>(json.size()),
               json.data());
    device.finalize();
    const PlanSite site{nullptr, &device};
    for (DType type : {DType::F32, DType::BF16}) {
      const Order order = type == DType::F32 ? Order::ChannelsFirst : Order::ChannelsLast;
      const Convolution forward = middle(ConvolutionKind::Forward, type, order);
      for (const Convolution &of :
           {forward, middle(ConvolutionKind::GradInput, type, order),
            middle(ConvolutionKind::GradWeight, type, order), withRelu(withBias(forward))}) {
        const CudnnDescriptor graph = operationGraph(*library, of, site);
        CudnnDescriptor heuristics(*library, cudnn::kHeuristics);
        heuristics.set(cudnn::kHeuristicsGraph, graph);
        heuristics.set(cudnn::kHeuristicsMode, cudnn::kTypeHeuristicsMode, cudnn::kModeA);
        heuristics.set(cudnn::kHeuristicsDevice, device);
        heuristics.finalize();
        std::vector<CudnnDescriptor> configs;
        std::vector<void *> raw;
        for (int i = 0; i < 8; ++i)
          raw.push_back(configs.emplace_back(*library, cudnn::kEngineConfig).raw);
        const int64_t count =
            heuristics.get(cudnn::kHeuristicsResults, cudnn::kTypeDescriptor, 8, raw.data());
        for (int64_t i = 0; i < std::min<int64_t>(count, 8); ++i, ++compared) {
          const CudnnDescriptor &config = configs[static_cast<size_t>(i)];
          CudnnDescriptor theirs(*library, cudnn::kExecutionPlan);
          theirs.set(cudnn::kPlanEngineConfig, config);
          theirs.set(cudnn::kPlanDevice, device);
          theirs.finalize();
          const CudnnDescriptor ours =
              executionPlan(*library, graph, engineOf(*library, config), site);
          EXPECT_EQ(workspaceOf(ours), workspaceOf(theirs));
          auto text = [](const CudnnDescriptor &plan) {
            std::string all(plan.get(cudnn::kPlanJson, cudnn::kTypeChar, 0, nullptr), '\0');
            plan.get(cudnn::kPlanJson, cudnn::kTypeChar, static_cast<int64_t>(all.size()),
                     all.data());
            return all;
          };
          EXPECT_EQ(text(ours), text(theirs));
        }
      }
    }
  }
  EXPECT_GT(compared, 100);
}

/// A bias, with it a sum and relu, changes neither the fastest engine's scratch nor the leanest's. Without a bias
/// there are only engines that are compiled for a device at hand.
TEST_F(CudnnPlansTest, EpiloguesAreThoseWithABias) {
  for (const char *chip : {"a100", "b200", "h100", "h200", "rtx4090"}) {
    CudnnPlans plans = plansFor(chip);
    for (DType type : {DType::F32, DType::BF16, DType::F16}) {
      const Convolution alone =
          middle(ConvolutionKind::Forward, type,
                 type == DType::F32 ? Order::ChannelsFirst : Order::ChannelsLast);
      const std::vector<Bytes> without = workspaces(plans.of(alone));
      for (const Convolution &of : {withBias(alone), withRelu(withBias(alone)),
                                    withSum(withBias(alone)), withRelu(withSum(withBias(alone)))}) {
        const std::vector<Bytes> with = workspaces(plans.of(of));
        EXPECT_EQ(with.front(), without.front()) << chip << ", " << describe(of);
        EXPECT_EQ(*std::ranges::min_element(with), *std::ranges::min_element(without));
        EXPECT_FALSE(plans.of(of).front().isFallback);
      }
      for (const Convolution &of : {withRelu(alone), withSum(alone), withRelu(withSum(alone))})
        EXPECT_THROW(plans.of(of), Error) << chip << ", " << describe(of);
    }
  }
}

TEST_F(CudnnPlansTest, Tf32IsForThoseWhoAsk) {
  const Convolution of = middle(ConvolutionKind::Forward, DType::F32, Order::ChannelsLast);
  CudnnPlans exact = plansFor("a100"), cut = plansFor("a100", F32Products::Tf32);
  auto identities = [](const std::vector<EnginePlan> &plans) {
    std::set<std::string> found;
    for (const EnginePlan &plan : plans)
      found.insert(plan.identity);
    return found;
  };
  const std::set<std::string> few = identities(exact.of(of)), many = identities(cut.of(of));
  EXPECT_LT(few.size(), many.size());
  EXPECT_TRUE(std::includes(many.begin(), many.end(), few.begin(), few.end()));
}

TEST_F(CudnnPlansTest, AskedAgainItSaysTheSame) {
  for (ConvolutionKind kind :
       {ConvolutionKind::Forward, ConvolutionKind::GradInput, ConvolutionKind::GradWeight}) {
    const Convolution of = middle(kind, DType::F16, Order::ChannelsLast);
    CudnnPlans first = plansFor("h200"), second = plansFor("h200");
    const std::vector<EnginePlan> &one = first.of(of), &two = second.of(of);
    ASSERT_EQ(one.size(), two.size());
    EXPECT_EQ(&first.of(of), &one) << "a known convolution is not asked for again";
    std::vector<std::string> identities;
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].position, static_cast<int>(i));
      EXPECT_EQ(one[i].identity, two[i].identity);
      EXPECT_EQ(one[i].workspaceBytes, two[i].workspaceBytes);
      EXPECT_EQ(one[i].engine.index, two[i].engine.index);
      EXPECT_EQ(one[i].engine.knobs, two[i].engine.knobs);
      identities.push_back(one[i].identity);
    }
    std::sort(identities.begin(), identities.end());
    EXPECT_EQ(std::unique(identities.begin(), identities.end()), identities.end());
  }
}

TEST_F(CudnnPlansTest, StridesDilationsGroupsAndLopsidedPads) {
  CudnnPlans plans = plansFor("h100");
  Convolution strided = middle(ConvolutionKind::GradInput, DType::F32, Order::ChannelsFirst);
  strided.strides = {2, 2};
  strided.y = image({128, 64, 28, 28}, Order::ChannelsFirst);
  EXPECT_THAT(workspaces(plans.of(strided)), Each(testing::Ge(0)));
  Convolution dilated = middle(ConvolutionKind::Forward, DType::F32, Order::ChannelsFirst);
  dilated.dilations = dilated.padsBefore = dilated.padsAfter = {2, 2};
  EXPECT_FALSE(plans.of(dilated).empty());
  Convolution grouped = middle(ConvolutionKind::GradWeight, DType::F32, Order::ChannelsFirst);
  grouped.weight = image({64, 16, 3, 3}, Order::ChannelsFirst);
  EXPECT_FALSE(plans.of(grouped).empty());
  Convolution wide = middle(ConvolutionKind::Forward, DType::F64, Order::ChannelsFirst);
  EXPECT_FALSE(plans.of(wide).empty());
}

TEST_F(CudnnPlansTest, RefusalsCarryCudnnsReason) {
  CudnnPlans plans = plansFor("h100");
  Convolution wrong = middle(ConvolutionKind::Forward, DType::F32, Order::ChannelsFirst);
  wrong.y = image({128, 64, 55, 56}, Order::ChannelsFirst);
  try {
    plans.of(wrong);
    FAIL() << "a result of the wrong height was planned";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("for h100, convolution of f32, x 128x64x56x56, weight "
                                        "64x64x3x3, y 128x64x55x56: cuDNN refuses it: "
                                        "CUDNN_STATUS_"));
  }
  Convolution bytes = middle(ConvolutionKind::Forward, DType::U8, Order::ChannelsFirst);
  EXPECT_THROW(plans.of(bytes), Error);
  Chip garbled = requireChip("h100");
  garbled.deviceJson = "{\"deviceVer\": 900}";
  try {
    CudnnPlans(library, garbled);
    FAIL() << "a chip without properties was taken";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("does not take the description of h100: CUDNN_STATUS_"));
  }
}

} // namespace
} // namespace stow::cuda
