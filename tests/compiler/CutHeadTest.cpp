// Tests a head and its loss in pieces of rows: the losses are the same bits, what is summed over pieces
// the same to rounding, the arena smaller, and plans under budgets the bits of the one without.
#include "compiler/DeviceProfile.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "passes/plan/Budget.h"
#include "runtime/base/Error.h"
#include "tests/compiler/TrainPlaced.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace mlir;

namespace stow {
namespace {

constexpr const char *kModel = R"(module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<48x24xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %v: tensor<24x24xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %w: tensor<200x24xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %b: tensor<200xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>})
      -> (tensor<48x200xf32> {stow.name = "out"}) attributes {stow.role = #stow.role<model>} {
    %h = stow.matmul %x, %v {transpose_a = false, transpose_b = true} : (tensor<48x24xf32>, tensor<24x24xf32>) -> tensor<48x24xf32>
    %t = stow.tanh %h : (tensor<48x24xf32>) -> tensor<48x24xf32>
    %y = stow.matmul %t, %w, %b {transpose_a = false, transpose_b = true} : (tensor<48x24xf32>, tensor<200x24xf32>, tensor<200xf32>) -> tensor<48x200xf32>
    return %y : tensor<48x200xf32>
  }
})";

class CutHead : public testing::Test {
protected:
  CutHead() {
    prepareContext(context);
    path = testing::TempDir() + "head-" + std::to_string(getpid()) + ".mlir";
    std::ofstream(path) << kModel;
    options.modelPath = path;
    options.loss = parseLoss("cross-entropy:label-smoothing=0.1");
    options.optimizer = parseOptimizer("sgd:lr=0.05");
    options.threads = 2;
    backend = chooseBackend(options);
  }
  ~CutHead() override { std::remove(path.c_str()); }

  OwningOpRef<ModuleOp> step(int64_t pieces) {
    options.lossChunks = pieces;
    return prepareStep(context, options, *backend);
  }

  MLIRContext context;
  std::string path;
  CompileOptions options;
  std::unique_ptr<Backend> backend;
  const CostModel costs = loadDevice("cpu", 2);
};

TEST_F(CutHead, TakesLessForTheSameLosses) {
  OwningOpRef<ModuleOp> whole = step(1);
  BudgetPlanner wholePlanner(*whole, costs, backend->target(), {.effort = 0.1});
  const std::vector<char> expected = trainPlaced(*wholePlanner.keepAll().placed);
  const int64_t pieces = 5; // 48 rows are no multiple
  OwningOpRef<ModuleOp> cut = step(pieces);
  BudgetPlanner planner(*cut, costs, backend->target(), {.effort = 0.1});
  EXPECT_LT(planner.keepAll().arenaBytes, wholePlanner.keepAll().arenaBytes);
  const std::vector<char> found = trainPlaced(*planner.keepAll().placed, Poison::Dying);
  ASSERT_EQ(found.size(), expected.size());
  float first[2];
  std::memcpy(&first[0], expected.data(), sizeof(float));
  std::memcpy(&first[1], found.data(), sizeof(float));
  EXPECT_EQ(first[0], first[1]) << "the first step's loss";
  EXPECT_TRUE(std::isfinite(first[0]));
  int64_t differing = 0;
  for (size_t at = 0; at < found.size(); at += sizeof(float)) {
    float a, b;
    std::memcpy(&a, expected.data() + at, sizeof(float));
    std::memcpy(&b, found.data() + at, sizeof(float));
    ASSERT_NEAR(a, b, 2e-6 * std::max(1.0f, std::abs(a)));
    differing += a != b;
  }
  EXPECT_GT(differing, 0) << "sums over pieces that do not show: the flag would be needless";
  EXPECT_EQ(trainPlaced(*planner.checkpointed().placed, Poison::Dying), found);
  EXPECT_EQ(trainPlaced(*planner.smallest().placed, Poison::Dying), found);
}

// Tests that pieces are chosen: as many as pay, and the step asked for where none fits but in pieces.
TEST_F(CutHead, ChoosesPieces) {
  StageTimer timer;
  options.lossChunks = 1;
  const Plan whole = compileToPlan(context, options, timer).plan;
  options.lossChunks = 8;
  const Plan eight = compileToPlan(context, options, timer).plan;
  options.lossChunks = 0;
  const Plan chosen = compileToPlan(context, options, timer).plan;
  EXPECT_LT(eight.arenaBytes, whole.arenaBytes);
  EXPECT_LE(chosen.arenaBytes, eight.arenaBytes);
  options.memoryBudget = parseByteBudget(std::to_string(eight.arenaBytes));
  const Plan budgeted = compileToPlan(context, options, timer).plan;
  EXPECT_LE(budgeted.arenaBytes, eight.arenaBytes);
  EXPECT_LE(budgeted.stepSeconds, eight.stepSeconds);
  EXPECT_THROW(prepareStep(context, options, *backend), Error);
}

} // namespace
} // namespace stow
