// Tests that normalizations whose elements kernels compute change what a step takes and nothing else:
// the same model, trained on a target that normalizes whole tensors, ends in the same bits.
#include "codegen/host/HostTarget.h"
#include "compiler/DataSheet.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "ir/Graphs.h"
#include "ir/StowNormOps.h"
#include "ir/StowStatisticsOps.h"
#include "passes/order/ScheduleProblem.h"
#include "passes/plan/Budget.h"
#include "passes/plan/Stages.h"
#include "tests/compiler/PlanningBackend.h"
#include "tests/compiler/TrainPlaced.h"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace mlir;

namespace stow {
namespace {

/// The host, which normalizes whole tensors.
class Whole : public host::HostTarget {
public:
  Whole() : HostTarget(2) {}
  std::optional<CommandOp> libraryCall(Operation *op) const override {
    return isa<BatchNormStatisticsOp>(op) ? std::nullopt : HostTarget::libraryCall(op);
  }
};

std::string parameter(const std::string &name, const std::string &type, double mean,
                      double deviation) {
  return "%" + name + ": " + type + " {stow.name = \"" + name +
         "\", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<\"normal\", " +
         std::to_string(mean) + ", " + std::to_string(deviation) + ">},\n";
}

std::string statistic(const std::string &name, const std::string &value) {
  return "%" + name + ": tensor<16xf32> {stow.name = \"" + name +
         "\", stow.kind = #stow.kind<statistic>, stow.init = #stow.init<\"constant\", " + value +
         ", 0.0>}";
}

/// Convolution, normalization and `activation` of %n, which is %r; then another of both, with a skip.
std::string blocks(const std::string &activation) {
  const std::string vector = "tensor<16xf32>", image = "tensor<4x16x9x9xf32>";
  std::string text =
      "module attributes {stow.form = \"model\"} {\nfunc.func @model(\n"
      "%x: tensor<4x16x9x9xf32> {stow.name = \"x\", stow.kind = #stow.kind<input>},\n";
  for (const std::string number : {"1", "2"})
    text += parameter("w" + number, "tensor<16x16x3x3xf32>", 0, 0.2) +
            parameter("s" + number, vector, 1, 0.2) + parameter("b" + number, vector, 0, 0.2);
  text += statistic("m1", "0.0") + "," + statistic("v1", "1.0") + "," + statistic("m2", "0.0") +
          "," + statistic("v2", "1.0") + ") -> (" + image +
          " {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n";
  auto layer = [&](const std::string &number, const std::string &input) {
    text +=
        "%c" + number + " = stow.conv2d %" + input + ", %w" + number +
        " {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, "
        "1>, groups = 1 : i64} : (" +
        image + ", tensor<16x16x3x3xf32>) -> " + image + "\n%n" + number + " = stow.batch_norm %c" +
        number + ", %s" + number + ", %b" + number + ", %m" + number + ", %v" + number +
        " {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64} : (" + image + ", " + vector + ", " +
        vector + ", " + vector + ", " + vector + ") -> " + image + "\n";
  };
  auto op = [&](const std::string &result, const std::string &name, const std::string &operands,
                int count) {
    text += "%" + result + " = stow." + name + " " + operands + " : (" + image +
            (count == 2 ? ", " + image : "") + ") -> " + image + "\n";
  };
  layer("1", "x");
  if (activation == "silu") {
    op("g", "sigmoid", "%n1", 1);
    op("r", "mul", "%n1, %g", 2);
  } else {
    op("r", activation, "%n1", 1);
  }
  layer("2", "r");
  op("sum", "add", "%n2, %r", 2);
  op("y", "relu", "%sum", 1);
  return text + "return %y : " + image + "\n}\n}\n";
}

struct Case {
  std::string activation;
  Precision precision;
};

class SplitBatchNorm : public testing::TestWithParam<Case> {
protected:
  SplitBatchNorm() {
    prepareContext(context);
    path = testing::TempDir() + "split-batch-norm-" + std::to_string(getpid()) + ".mlir";
    std::ofstream(path) << blocks(GetParam().activation);
    options.modelPath = path;
    options.loss = parseLoss("mse");
    options.optimizer = parseOptimizer("sgd:lr=0.05,momentum=0.9");
    options.threads = 2;
    options.precision = GetParam().precision;
  }
  ~SplitBatchNorm() override { std::remove(path.c_str()); }

  MLIRContext context;
  std::string path;
  CompileOptions options;
  const CostModel costs = loadDevice("cpu", 2);
};

TEST_P(SplitBatchNorm, GivesTheSameBitsInNoMoreMemory) {
  const PlanningBackend<Whole> whole;
  OwningOpRef<ModuleOp> expectedStep = prepareStep(context, options, whole);
  BudgetPlanner wholePlanner(*expectedStep, costs, whole.target(), {.effort = 0.1});
  const std::vector<char> expected = trainPlaced(*wholePlanner.keepAll().placed);

  std::unique_ptr<Backend> backend = chooseBackend(options);
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, *backend);
  func::FuncOp train = findGraph(*prepared, Role::Train);
  ASSERT_EQ(llvm::range_size(train.getOps<BatchNormStatisticsOp>()), 2);
  EXPECT_TRUE(train.getOps<BatchNormTrainingOp>().empty());
  // One pass less forward for each normalization, and where it is computed again two less.
  EXPECT_LT(costs.timeOf(train).once, costs.timeOf(findGraph(*expectedStep, Role::Train)).once);

  BudgetPlanner planner(*prepared, costs, backend->target(), {.effort = 0.1});
  // Where the scratch of a call makes the peak, which differs from processor to processor, a vector of each
  // normalization that kernels read may live there that is gone by then where a call normalizes.
  constexpr Bytes vectors = 2 * 16 * sizeof(float);
  EXPECT_LE(planner.keepAll().arenaBytes, wholePlanner.keepAll().arenaBytes + vectors);
  EXPECT_LE(planner.lowerBound(), planner.smallest().arenaBytes);
  EXPECT_TRUE(planner.refusals().empty());
  const std::vector<char> kept = trainPlaced(*planner.keepAll().placed, Poison::Dying);
  // A sum of 16-bit elements takes the normalized one as it was computed.
  if (GetParam().precision == Precision::F32)
    EXPECT_EQ(kept, expected);
  EXPECT_EQ(trainPlaced(*planner.checkpointed().placed, Poison::Dying), kept);
  EXPECT_EQ(trainPlaced(*planner.smallest().placed, Poison::Dying), kept);
}

INSTANTIATE_TEST_SUITE_P(Activations, SplitBatchNorm,
                         testing::Values(Case{"relu", Precision::F32}, Case{"silu", Precision::F32},
                                         Case{"relu", Precision::BF16}),
                         [](const auto &info) {
                           return info.param.activation +
                                  (info.param.precision == Precision::F32 ? "F32" : "BF16");
                         });

} // namespace
} // namespace stow
