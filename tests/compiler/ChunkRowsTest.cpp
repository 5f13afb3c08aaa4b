// Tests heads, hidden layers and convolutions in chunks of rows: the losses are the same bits, what is summed over
// chunks the same to rounding, the arena smaller, and plans under budgets the bits of the one without.
#include "compiler/Compile.h"
#include "compiler/DataSheet.h"
#include "passes/plan/Budget.h"
#include "runtime/base/Error.h"
#include "tests/compiler/OwnModel.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

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

/// A loss of its own: log-probabilities of given classes, summed over sequences of 12 rows, whose gradients then depend on these sums.
constexpr const char *kSequences = R"(module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<48x24xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %t: tensor<48x1xi64> {stow.name = "t", stow.kind = #stow.kind<input>},
      %v: tensor<24x24xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %w: tensor<200x24xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %b: tensor<200xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>})
      -> (tensor<f32> {stow.name = "out"}) attributes {stow.role = #stow.role<model>} {
    %h = stow.matmul %x, %v {transpose_a = false, transpose_b = true} : (tensor<48x24xf32>, tensor<24x24xf32>) -> tensor<48x24xf32>
    %a = stow.tanh %h : (tensor<48x24xf32>) -> tensor<48x24xf32>
    %y = stow.matmul %a, %w, %b {transpose_a = false, transpose_b = true} : (tensor<48x24xf32>, tensor<200x24xf32>, tensor<200xf32>) -> tensor<48x200xf32>
    %l = stow.log_softmax %y {axis = 1 : i64} : (tensor<48x200xf32>) -> tensor<48x200xf32>
    %p = stow.take_along %l, %t {axis = 1 : i64} : (tensor<48x200xf32>, tensor<48x1xi64>) -> tensor<48x1xf32>
    %q = stow.reshape %p : (tensor<48x1xf32>) -> tensor<4x12xf32>
    %s = stow.reduce_mean %q {axes = array<i64: 1>, keepdims = false} : (tensor<4x12xf32>) -> tensor<4xf32>
    %n = stow.neg %s : (tensor<4xf32>) -> tensor<4xf32>
    %r = stow.softplus %n : (tensor<4xf32>) -> tensor<4xf32>
    %o = stow.reduce_mean %r {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    return %o : tensor<f32>
  }
})";

/// Two blocks, each of two products with a gate between them and a sum behind.
constexpr const char *kGated = R"(module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<8x40x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %a: tensor<8x64xf32> {stow.name = "a", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %b: tensor<64xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %g: tensor<8x64xf32> {stow.name = "g", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %c: tensor<64x8xf32> {stow.name = "c", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.1>},
      %d: tensor<8x64xf32> {stow.name = "d", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %e: tensor<64x8xf32> {stow.name = "e", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<8x40x8xf32> {stow.name = "out"}) attributes {stow.role = #stow.role<model>} {
    %p = stow.matmul %x, %a {transpose_a = false, transpose_b = false} : (tensor<8x40x8xf32>, tensor<8x64xf32>) -> tensor<8x40x64xf32>
    %q = stow.add %p, %b : (tensor<8x40x64xf32>, tensor<64xf32>) -> tensor<8x40x64xf32>
    %t = stow.tanh %q : (tensor<8x40x64xf32>) -> tensor<8x40x64xf32>
    %u = stow.matmul %x, %g {transpose_a = false, transpose_b = false} : (tensor<8x40x8xf32>, tensor<8x64xf32>) -> tensor<8x40x64xf32>
    %h = stow.mul %t, %u : (tensor<8x40x64xf32>, tensor<8x40x64xf32>) -> tensor<8x40x64xf32>
    %y = stow.matmul %h, %c {transpose_a = false, transpose_b = false} : (tensor<8x40x64xf32>, tensor<64x8xf32>) -> tensor<8x40x8xf32>
    %z = stow.add %x, %y : (tensor<8x40x8xf32>, tensor<8x40x8xf32>) -> tensor<8x40x8xf32>
    %v = stow.matmul %z, %d {transpose_a = false, transpose_b = false} : (tensor<8x40x8xf32>, tensor<8x64xf32>) -> tensor<8x40x64xf32>
    %w = stow.sigmoid %v : (tensor<8x40x64xf32>) -> tensor<8x40x64xf32>
    %o = stow.matmul %w, %e {transpose_a = false, transpose_b = false} : (tensor<8x40x64xf32>, tensor<64x8xf32>) -> tensor<8x40x8xf32>
    return %o : tensor<8x40x8xf32>
  }
})";

/// Two convolutions, a pooling and a classifier of what is left.
constexpr const char *kImages = R"(module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<6x1x16x16xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %v: tensor<8x1x3x3xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %b: tensor<8xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %w: tensor<8x8x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.1>},
      %c: tensor<8xf32> {stow.name = "c", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
      %u: tensor<10x512xf32> {stow.name = "u", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<6x10xf32> {stow.name = "out"}) attributes {stow.role = #stow.role<model>} {
    %p = stow.conv2d %x, %v, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<6x1x16x16xf32>, tensor<8x1x3x3xf32>, tensor<8xf32>) -> tensor<6x8x16x16xf32>
    %q = stow.relu %p : (tensor<6x8x16x16xf32>) -> tensor<6x8x16x16xf32>
    %r = stow.conv2d %q, %w, %c {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<6x8x16x16xf32>, tensor<8x8x3x3xf32>, tensor<8xf32>) -> tensor<6x8x16x16xf32>
    %s = stow.relu %r : (tensor<6x8x16x16xf32>) -> tensor<6x8x16x16xf32>
    %t = stow.max_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<6x8x16x16xf32>) -> tensor<6x8x8x8xf32>
    %f = stow.reshape %t : (tensor<6x8x8x8xf32>) -> tensor<6x512xf32>
    %y = stow.matmul %f, %u {transpose_a = false, transpose_b = true} : (tensor<6x512xf32>, tensor<10x512xf32>) -> tensor<6x10xf32>
    return %y : tensor<6x10xf32>
  }
})";

class ChunkRows : public testing::Test, protected OwnModel {
protected:
  ChunkRows() {
    options.optimizer = parseOptimizer("sgd:lr=0.05");
    backend = chooseBackend(options);
  }

  void take(const char *model, const char *loss) {
    write(model);
    options.loss = parseLoss(loss);
  }

  OwningOpRef<ModuleOp> step() { return prepareStep(context, options, *backend); }

  /// Trains the model whole and with `chunks` set to `count`.
  void compareWithChunks(int64_t CompileOptions::*chunks, int64_t count) {
    options.*chunks = 1;
    OwningOpRef<ModuleOp> whole = step();
    BudgetPlanner wholePlanner(*whole, costs, backend->target(), {.effort = 0.1});
    const std::vector<char> expected = trainPlaced(*wholePlanner.keepAll().placed);
    options.*chunks = count;
    OwningOpRef<ModuleOp> cut = step();
    BudgetPlanner planner(*cut, costs, backend->target(), {.effort = 0.1});
    EXPECT_LT(planner.smallest().arenaBytes, wholePlanner.smallest().arenaBytes);
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
    EXPECT_GT(differing, 0) << "sums over chunks that do not show: the flag would be needless";
    EXPECT_EQ(trainPlaced(*planner.checkpointed().placed, Poison::Dying), found);
    EXPECT_EQ(trainPlaced(*planner.smallest().placed, Poison::Dying), found);
  }

  /// Lets the compiler choose, and compares with `count` of them.
  void chooseBetween(int64_t CompileOptions::*chunks, int64_t count) {
    StageTimer timer;
    options.*chunks = 1;
    const Plan whole = compileToPlan(context, options, timer, {.effort = 0.1}).plan;
    options.*chunks = count;
    const Plan cut = compileToPlan(context, options, timer, {.effort = 0.1}).plan;
    options.*chunks = 0;
    const Plan chosen = compileToPlan(context, options, timer, {.effort = 0.1}).plan;
    EXPECT_LT(cut.arenaBytes, whole.arenaBytes);
    EXPECT_LE(chosen.arenaBytes, cut.arenaBytes);
    options.memoryBudget = parseByteBudget(std::to_string(cut.arenaBytes));
    const Plan budgeted = compileToPlan(context, options, timer, {.effort = 0.1}).plan;
    EXPECT_LE(budgeted.arenaBytes, cut.arenaBytes);
    EXPECT_LE(budgeted.stepSeconds, cut.stepSeconds);
    EXPECT_THROW(step(), Error);
  }

  std::unique_ptr<Backend> backend;
  const CostModel costs = loadDevice("cpu", 2);
};

TEST_F(ChunkRows, HeadsTakeLessForTheSameLosses) {
  take(kModel, "cross-entropy:label-smoothing=0.1");
  compareWithChunks(&CompileOptions::lossChunks, 5); // 48 rows are no multiple
}

TEST_F(ChunkRows, RowsThatMeetInSumsTakeLessForTheSameLosses) {
  take(kSequences, "output:out");
  compareWithChunks(&CompileOptions::lossChunks, 5);
}

TEST_F(ChunkRows, HiddenLayersTakeLessForTheSameLosses) {
  take(kGated, "mse");
  compareWithChunks(&CompileOptions::rowChunks, 6); // 320 rows are no multiple
}

TEST_F(ChunkRows, ConvolutionsTakeLessForTheSameLosses) {
  take(kImages, "mse");
  compareWithChunks(&CompileOptions::rowChunks, 4); // nor are 6 images
}

// Tests that chunks are chosen: as many as pay, and the step asked for where none fits but in chunks.
TEST_F(ChunkRows, ChoosesChunksOfAHead) {
  take(kModel, "cross-entropy:label-smoothing=0.1");
  chooseBetween(&CompileOptions::lossChunks, 8);
}

TEST_F(ChunkRows, ChoosesChunksOfConvolutions) {
  take(kImages, "mse");
  chooseBetween(&CompileOptions::rowChunks, 6);
}

} // namespace
} // namespace stow
