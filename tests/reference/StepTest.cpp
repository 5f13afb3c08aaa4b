// A small network through the whole of passes/autodiff: the gradients of the step against finite
// differences, its updates against their formulas, and what relu saves against nothing at all.
#include "codegen/Backend.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"
#include "passes/verify/Passes.h"
#include "tests/reference/Evaluator.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace stow::reference {
namespace {

// conv - bn - relu - (residual conv) - pool - dropout - linear - softmax, f64.
const char *const network = R"(
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<3x2x6x6xf64> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4x2x3x3xf64> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %s: tensor<4xf64> {stow.name = "scale", stow.kind = #stow.kind<parameter>},
      %b: tensor<4xf64> {stow.name = "bias", stow.kind = #stow.kind<parameter>},
      %m: tensor<4xf64> {stow.name = "mean", stow.kind = #stow.kind<statistic>},
      %v: tensor<4xf64> {stow.name = "variance", stow.kind = #stow.kind<statistic>},
      %w2: tensor<4x4x3x3xf64> {stow.name = "w2", stow.kind = #stow.kind<parameter>},
      %fw: tensor<5x36xf64> {stow.name = "fc", stow.kind = #stow.kind<parameter>},
      %fb: tensor<5xf64> {stow.name = "fc_bias", stow.kind = #stow.kind<parameter>})
      -> (tensor<3x5xf64> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<3x2x6x6xf64>, tensor<4x2x3x3xf64>) -> tensor<3x4x6x6xf64>
    %1 = stow.batch_norm %0, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
        : (tensor<3x4x6x6xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>)
        -> tensor<3x4x6x6xf64>
    %2 = stow.relu %1 : (tensor<3x4x6x6xf64>) -> tensor<3x4x6x6xf64>
    %3 = stow.conv2d %2, %w2 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<3x4x6x6xf64>, tensor<4x4x3x3xf64>) -> tensor<3x4x6x6xf64>
    %4 = stow.add %2, %3 : (tensor<3x4x6x6xf64>, tensor<3x4x6x6xf64>) -> tensor<3x4x6x6xf64>
    %5 = stow.relu %4 : (tensor<3x4x6x6xf64>) -> tensor<3x4x6x6xf64>
    %6 = stow.max_pool %5 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
        : (tensor<3x4x6x6xf64>) -> tensor<3x4x3x3xf64>
    %7 = stow.dropout %6 {ratio = 0.3 : f64} : (tensor<3x4x3x3xf64>) -> tensor<3x4x3x3xf64>
    %8 = stow.reshape %7 : (tensor<3x4x3x3xf64>) -> tensor<3x36xf64>
    %9 = stow.matmul %8, %fw, %fb {transpose_a = false, transpose_b = true}
        : (tensor<3x36xf64>, tensor<5x36xf64>, tensor<5xf64>) -> tensor<3x5xf64>
    %10 = stow.softmax %9 {axis = 1 : i64} : (tensor<3x5xf64>) -> tensor<3x5xf64>
    return %10 : tensor<3x5xf64>
  }
})";

using Named = std::map<std::string, Tensor>;

class Step {
public:
  Step(const std::string &saved, bool hasOptimizer) {
    context.loadDialect<StowDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(network, &context);
    PassManager passes(&context);
    passes.addPass(createVerifyModelPass());
    const std::unique_ptr<Backend> backend = createBackend({});
    passes.addPass(createSplitTrainEvalPass(backend->target()));
    passes.addPass(createAttachLossPass());
    AutodiffPassOptions autodiff;
    autodiff.saved = saved;
    passes.addPass(createAutodiffPass(autodiff));
    if (hasOptimizer) {
      AttachOptimizerPassOptions optimizer;
      optimizer.optimizer = parseOptimizer("sgd:momentum=0.9");
      passes.addPass(createAttachOptimizerPass(optimizer));
      passes.addPass(createVerifyStepPass());
    }
    isBuilt = module && succeeded(passes.run(*module));
  }

  Named run(Role role, const Named &arguments) {
    auto graph = findGraph(*module, role);
    std::vector<Tensor> values;
    for (BlockArgument argument : graph.getArguments())
      values.push_back(arguments.at(argumentAttr(graph, argument.getArgNumber(), kNameAttr).str()));
    Named results;
    std::vector<Tensor> computed = evaluate(graph, values);
    for (auto [result, value] : llvm::zip(resultsOf(graph), computed)) {
      StringRef state = result.get(kStateAttr);
      results[(state.empty() ? result.get(kNameAttr) : state).str()] = value;
    }
    return results;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  bool isBuilt = false;
};

Named sampleArguments() {
  std::mt19937_64 random(7);
  auto sample = [&](std::vector<int64_t> shape, double low, double high) {
    Tensor tensor(std::move(shape));
    for (double &value : tensor.values)
      value = low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
    return tensor;
  };
  return {{"x", sample({3, 2, 6, 6}, -1, 1)},
          {"w", sample({4, 2, 3, 3}, -0.5, 0.5)},
          {"scale", sample({4}, 0.5, 1.5)},
          {"bias", sample({4}, -0.5, 0.5)},
          {"mean", sample({4}, -0.2, 0.2)},
          {"variance", sample({4}, 0.5, 1.5)},
          {"w2", sample({4, 4, 3, 3}, -0.4, 0.4)},
          {"fc", sample({5, 36}, -0.5, 0.5)},
          {"fc_bias", sample({5}, -0.5, 0.5)},
          {"target", Tensor({3}, {4, 0, 2})},
          {"seed", Tensor({}, std::vector<double>{99})},
          {"learning_rate", Tensor({}, std::vector<double>{0.5})}};
}

const std::vector<std::string> parameters = {"w", "scale", "bias", "w2", "fc", "fc_bias"};

TEST(StepTest, GradientsAgreeWithFiniteDifferences) {
  Step step("auto", false);
  ASSERT_TRUE(step.isBuilt);
  Named arguments = sampleArguments();
  Named results = step.run(Role::Train, arguments);
  const double h = 1e-6; // small enough to cross no kink of relu and max pooling here
  for (const std::string &name : parameters)
    for (int64_t i = 0; i < arguments[name].size(); i += 3) {
      auto lossAt = [&](double by) {
        Named moved = arguments;
        moved[name].values[i] += by;
        return step.run(Role::Train, moved)["loss"].values[0];
      };
      double expected = (lossAt(h) - lossAt(-h)) / (2 * h);
      EXPECT_NEAR(results[name + ".grad"].values[i], expected, 1e-6 * std::abs(expected) + 1e-8)
          << name << ", element " << i;
    }
}

TEST(StepTest, WhatReluSavesChangesNothing) {
  Named expected = Step("output", false).run(Role::Train, sampleArguments());
  for (std::string saved : {"auto", "mask", "input"}) {
    Step step(saved, false);
    ASSERT_TRUE(step.isBuilt);
    Named results = step.run(Role::Train, sampleArguments());
    for (const std::string &name : parameters)
      EXPECT_EQ(results[name + ".grad"].values, expected[name + ".grad"].values) << saved;
  }
}

TEST(StepTest, UpdatesParametersMomentumAndStatistics) {
  Step gradients("auto", false), step("auto", true);
  ASSERT_TRUE(gradients.isBuilt && step.isBuilt);
  Named arguments = sampleArguments();
  Named expected = gradients.run(Role::Train, arguments);
  for (const std::string &name : parameters)
    arguments[name + ".momentum"] = Tensor(arguments[name].shape, 0.25);
  Named results = step.run(Role::Train, arguments);
  EXPECT_EQ(results["loss"].values, expected["loss"].values);
  for (std::string name : {"mean", "variance"}) {
    EXPECT_EQ(results[name].values, expected[name].values);
    EXPECT_NE(results[name].values, arguments[name].values);
  }
  for (const std::string &name : parameters)
    for (int64_t i = 0; i < arguments[name].size(); ++i) {
      double momentum = 0.9 * 0.25 + expected[name + ".grad"].values[i];
      EXPECT_DOUBLE_EQ(results[name + ".momentum"].values[i], momentum) << name;
      EXPECT_DOUBLE_EQ(results[name].values[i], arguments[name].values[i] - 0.5 * momentum) << name;
    }
}

TEST(StepTest, EvaluationNormalizesWithRunningStatisticsAndDropsNothing) {
  Step step("auto", true);
  ASSERT_TRUE(step.isBuilt);
  Named arguments = sampleArguments();
  Tensor scores = step.run(Role::Eval, arguments)["y"];
  for (int64_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < 5; ++c)
      sum += scores({row, c});
    EXPECT_NEAR(sum, 1, 1e-12); // the softmax is still there
  }
  arguments["mean"].values[0] += 0.5;
  EXPECT_NE(step.run(Role::Eval, arguments)["y"].values, scores.values);
}

} // namespace
} // namespace stow::reference
