// stow-expand-batch-norm and stow-nest-concats on a dense block: the step and the evaluation graph
// compute the same numbers, in double, as they do with one op per normalization.
#include "codegen/Backend.h"
#include "ir/StowNormOps.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"
#include "passes/rewrite/Passes.h"
#include "passes/verify/Passes.h"
#include "tests/reference/Evaluator.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace stow::reference {
namespace {

// Two layers of a dense block: each normalizes all before it, the first a convolution that the
// concats read too, and so does what follows.
const char *const block = R"(
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<3x4x5x5xf64> {stow.name = "x", stow.kind = #stow.kind<input>},
      %k: tensor<4x4x1x1xf64> {stow.name = "k", stow.kind = #stow.kind<parameter>},
      %w: tensor<2x4x3x3xf64> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %v: tensor<3x6x3x3xf64> {stow.name = "v", stow.kind = #stow.kind<parameter>},
      %s0: tensor<4xf64> {stow.name = "scale0", stow.kind = #stow.kind<parameter>},
      %b0: tensor<4xf64> {stow.name = "bias0", stow.kind = #stow.kind<parameter>},
      %m0: tensor<4xf64> {stow.name = "mean0", stow.kind = #stow.kind<statistic>},
      %v0: tensor<4xf64> {stow.name = "variance0", stow.kind = #stow.kind<statistic>},
      %s1: tensor<6xf64> {stow.name = "scale1", stow.kind = #stow.kind<parameter>},
      %b1: tensor<6xf64> {stow.name = "bias1", stow.kind = #stow.kind<parameter>},
      %m1: tensor<6xf64> {stow.name = "mean1", stow.kind = #stow.kind<statistic>},
      %v1: tensor<6xf64> {stow.name = "variance1", stow.kind = #stow.kind<statistic>},
      %s2: tensor<9xf64> {stow.name = "scale2", stow.kind = #stow.kind<parameter>},
      %b2: tensor<9xf64> {stow.name = "bias2", stow.kind = #stow.kind<parameter>},
      %m2: tensor<9xf64> {stow.name = "mean2", stow.kind = #stow.kind<statistic>},
      %v2: tensor<9xf64> {stow.name = "variance2", stow.kind = #stow.kind<statistic>})
      -> (tensor<3x9x5x5xf64> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.conv2d %x, %k {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
        dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<3x4x5x5xf64>, tensor<4x4x1x1xf64>) -> tensor<3x4x5x5xf64>
    %n = stow.batch_norm %0, %s0, %b0, %m0, %v0 {epsilon = 1.0e-3 : f64, momentum = 0.1 : f64}
        : (tensor<3x4x5x5xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>)
        -> tensor<3x4x5x5xf64>
    %1 = stow.conv2d %n, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<3x4x5x5xf64>, tensor<2x4x3x3xf64>) -> tensor<3x2x5x5xf64>
    %2 = stow.concat %0, %1 {axis = 1 : i64}
        : (tensor<3x4x5x5xf64>, tensor<3x2x5x5xf64>) -> tensor<3x6x5x5xf64>
    %3 = stow.batch_norm %2, %s1, %b1, %m1, %v1 {epsilon = 1.0e-3 : f64, momentum = 0.1 : f64}
        : (tensor<3x6x5x5xf64>, tensor<6xf64>, tensor<6xf64>, tensor<6xf64>, tensor<6xf64>)
        -> tensor<3x6x5x5xf64>
    %4 = stow.relu %3 : (tensor<3x6x5x5xf64>) -> tensor<3x6x5x5xf64>
    %5 = stow.conv2d %4, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<3x6x5x5xf64>, tensor<3x6x3x3xf64>) -> tensor<3x3x5x5xf64>
    %6 = stow.concat %0, %1, %5 {axis = 1 : i64}
        : (tensor<3x4x5x5xf64>, tensor<3x2x5x5xf64>, tensor<3x3x5x5xf64>) -> tensor<3x9x5x5xf64>
    %7 = stow.batch_norm %6, %s2, %b2, %m2, %v2 {epsilon = 1.0e-3 : f64, momentum = 0.1 : f64}
        : (tensor<3x9x5x5xf64>, tensor<9xf64>, tensor<9xf64>, tensor<9xf64>, tensor<9xf64>)
        -> tensor<3x9x5x5xf64>
    %8 = stow.relu %7 : (tensor<3x9x5x5xf64>) -> tensor<3x9x5x5xf64>
    return %8 : tensor<3x9x5x5xf64>
  }
})";

class Step {
public:
  explicit Step(bool isRewritten) {
    const std::unique_ptr<Backend> backend = createBackend({});
    context.loadDialect<StowDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(block, &context);
    PassManager passes(&context);
    passes.addPass(createVerifyModelPass());
    if (isRewritten)
      passes.addPass(createNestConcatsPass());
    passes.addPass(createSplitTrainEvalPass(backend->target()));
    AttachLossPassOptions loss;
    loss.loss = parseLoss("mse");
    passes.addPass(createAttachLossPass(loss));
    passes.addPass(createAutodiffPass());
    if (isRewritten)
      passes.addPass(createExpandBatchNormPass(backend->target()));
    isBuilt = module && succeeded(passes.run(*module));
  }

  std::vector<Tensor> run(Role role) {
    auto graph = findGraph(*module, role);
    std::mt19937_64 random(11);
    std::vector<Tensor> arguments;
    for (BlockArgument argument : graph.getArguments()) {
      Tensor tensor(shapeOf(argument));
      bool isVariance =
          argumentAttr(graph, argument.getArgNumber(), kNameAttr).starts_with("variance");
      for (double &value : tensor.values)
        value = static_cast<double>(random() >> 11) * 0x1p-52 - (isVariance ? 0 : 1);
      arguments.push_back(tensor);
    }
    return evaluate(graph, arguments);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  bool isBuilt = false;
};

// Tests the loss, the running statistics and all gradients of the step, and the output of
// evaluation.
TEST(ExpandBatchNorm, ChangesNoNumber) {
  Step plain(false), rewritten(true);
  ASSERT_TRUE(plain.isBuilt && rewritten.isBuilt);
  auto train = findGraph(*rewritten.module, Role::Train);
  EXPECT_TRUE(train.getOps<BatchNormTrainingOp>().empty());
  EXPECT_EQ(llvm::range_size(train.getOps<ChannelMomentsOp>()), 3);
  for (Role graph : {Role::Train, Role::Eval}) {
    std::vector<Tensor> expected = plain.run(graph), found = rewritten.run(graph);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(found.size(), graph == Role::Train ? 1 + 6 + 9 : 1u);
    for (size_t result = 0; result < found.size(); ++result)
      for (size_t i = 0; i < expected[result].values.size(); ++i)
        EXPECT_NEAR(found[result].values[i], expected[result].values[i], 1e-11)
            << stringifyRole(graph).str() << ", result " << result << ", element " << i;
  }
}

} // namespace
} // namespace stow::reference
