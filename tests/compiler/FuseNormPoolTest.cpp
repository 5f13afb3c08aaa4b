// Tests that normalizations which are pooled without being stored change what memory a step takes and
// nothing else: the same model, trained on a target that stores them, ends in the same bits.
#include "codegen/host/HostTarget.h"
#include "compiler/DataSheet.h"
#include "compiler/Pipeline.h"
#include "ir/Graphs.h"
#include "ir/StowNormPoolOps.h"
#include "passes/plan/Budget.h"
#include "passes/plan/Stages.h"
#include "tests/compiler/OwnModel.h"
#include "tests/compiler/PlanningBackend.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace stow {
namespace {

/// The host, which stores what it pools.
class Storing : public host::HostTarget {
public:
  Storing() : HostTarget(2) {}
  std::optional<CommandOp> libraryCall(Operation *op) const override {
    return isa<BatchNormMaxPoolOp, BatchNormMaxPoolGradientOp>(op) ? std::nullopt
                                                                   : HostTarget::libraryCall(op);
  }
};

/// A convolution, its normalization, a relu and a pooling.
const char *const stem = R"(module attributes {stow.form = "model"} {
func.func @model(
    %x: tensor<4x3x20x20xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %w: tensor<64x3x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.3>},
    %s: tensor<64xf32> {stow.name = "s", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 1.0, 0.2>},
    %b: tensor<64xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.2>},
    %m: tensor<64xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>, stow.init = #stow.init<"constant", 0.0, 0.0>},
    %v: tensor<64xf32> {stow.name = "v", stow.kind = #stow.kind<statistic>, stow.init = #stow.init<"constant", 1.0, 0.0>})
    -> (tensor<4x64x10x10xf32> {stow.name = "out"}) attributes {stow.role = #stow.role<model>} {
  %c = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<4x3x20x20xf32>, tensor<64x3x3x3xf32>) -> tensor<4x64x20x20xf32>
  %n = stow.batch_norm %c, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64}
      : (tensor<4x64x20x20xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<4x64x20x20xf32>
  %r = stow.relu %n : (tensor<4x64x20x20xf32>) -> tensor<4x64x20x20xf32>
  %p = stow.max_pool %r {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<4x64x20x20xf32>) -> tensor<4x64x10x10xf32>
  return %p : tensor<4x64x10x10xf32>
}
}
)";

class FuseNormPool : public testing::TestWithParam<Precision>, protected OwnModel {
protected:
  FuseNormPool() {
    write(stem);
    options.optimizer = parseOptimizer("sgd:lr=0.05,momentum=0.9");
    options.precision = GetParam();
  }

  const CostModel costs = loadDevice("cpu", 2);
};

TEST_P(FuseNormPool, GivesTheSameBitsInLessMemory) {
  const PlanningBackend<Storing> storing;
  OwningOpRef<ModuleOp> stored = prepareStep(context, options, storing);
  BudgetPlanner storedPlanner(*stored, costs, storing.target(), {.effort = 0.1});

  std::unique_ptr<Backend> backend = chooseBackend(options);
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, *backend);
  ASSERT_FALSE(findGraph(*prepared, Role::Train).getOps<BatchNormMaxPoolGradientOp>().empty());
  BudgetPlanner planner(*prepared, costs, backend->target(), {.effort = 0.1});
  expectSameBitsInLessMemory(planner, storedPlanner);
}

INSTANTIATE_TEST_SUITE_P(Precisions, FuseNormPool, testing::Values(Precision::F32, Precision::BF16),
                         [](const auto &info) {
                           return info.param == Precision::F32 ? "F32" : "BF16";
                         });

} // namespace
} // namespace stow
