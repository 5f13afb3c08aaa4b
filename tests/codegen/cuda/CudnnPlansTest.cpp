// What cuDNN answers for GPUs that are not here, and how its refusals are told.
#include "codegen/cuda/CudnnPlans.h"
#include "runtime/base/Error.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace stow::cuda {
namespace {

using testing::Each;
using testing::HasSubstr;

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
