// Sums of biases' gradients in the products of weights' gradients, on random networks planned for a GPU: the plans stay valid in arenas
// of the same bytes, with everything kept and where memory is short, and most sums move.
#include "passes/memory/FuseBiasGradient.h"
#include "compiler/DataSheet.h"
#include "compiler/Pipeline.h"
#include "ir/StepGraphs.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Budget.h"
#include "passes/plan/Stages.h"
#include "tests/compiler/H100.h"
#include "tests/compiler/OwnModel.h"
#include "tests/compiler/PlanningBackend.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace stow {
namespace {

/// Layers of random widths with tanh between, some of them read by a later one as well.
std::string randomLayers(uint32_t seed) {
  std::mt19937 random(seed);
  auto draw = [&](int from, int to) { return from + static_cast<int>(random() % (to - from + 1)); };
  const int rows = 8 * draw(1, 16), width = 8 * draw(1, 8), layers = draw(3, 7);
  const std::string type = absl::StrCat("tensor<", rows, "x", width, "xf32>"),
                    weight = absl::StrCat("tensor<", width, "x", width, "xf32>"),
                    bias = absl::StrCat("tensor<", width, "xf32>");
  std::string arguments, body, last = "x", earlier = "x";
  for (int i = 0; i < layers; ++i) {
    auto parameter = [&](const char *name, const std::string &shape) {
      absl::StrAppend(&arguments, ", %", name, i, ": ", shape,
                      " {stow.kind = #stow.kind<parameter>, stow.name = \"", name, i,
                      "\", stow.init = #stow.init<\"normal\", 0.0, 0.1>}");
    };
    parameter("w", weight);
    parameter("b", bias);
    absl::StrAppend(&body, "%p", i, " = stow.matmul %", last, ", %w", i,
                    " {transpose_a = false, transpose_b = ", draw(0, 1) ? "true" : "false", "} : (",
                    type, ", ", weight, ") -> ", type, "\n%s", i, " = stow.add %p", i, ", %b", i,
                    " : (", type, ", ", bias, ") -> ", type, "\n%t", i, " = stow.tanh %s", i,
                    " : (", type, ") -> ", type, "\n");
    last = absl::StrCat("t", i);
    if (draw(0, 2) == 0) {
      absl::StrAppend(&body, "%r", i, " = stow.add %", last, ", %", earlier, " : (", type, ", ",
                      type, ") -> ", type, "\n");
      earlier = last = absl::StrCat("r", i);
    }
  }
  return absl::StrCat("module attributes {stow.form = \"model\"} {\nfunc.func @model(%x: ", type,
                      " {stow.name = \"x\", stow.kind = #stow.kind<input>}", arguments, ") -> (",
                      type,
                      " {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n",
                      body, "return %", last, " : ", type, "\n}\n}\n");
}

class FuseBiasGradient : public testing::TestWithParam<uint32_t>, protected OwnModel {
protected:
  FuseBiasGradient() {
    write(randomLayers(GetParam()));
    options.optimizer = parseOptimizer(GetParam() % 2 ? "adamw:lr=1e-3" : "sgd:lr=0.1");
    options.precision = GetParam() % 3 ? Precision::F32 : Precision::BF16;
  }

  /// Of the sums over rows that a product contracts over, those that it makes.
  struct Counts {
    int made = 0, all = 0;
  };

  static Counts countsOf(ModuleOp module) {
    Counts counts;
    module.walk([&](ReduceSumOp sum) {
      for (Operation &op : *sum->getBlock())
        if (isa<MatmulOp, ProductMapOp>(op) && summedFactor(&op, sum)) {
          ++counts.all;
          counts.made += sumBeside(&op) == sum;
          break;
        }
    });
    return counts;
  }

  const CostModel costs = loadDevice("h100", 1);
};

TEST_P(FuseBiasGradient, TakeTimeFromAStepAndNoMemory) {
  const PlanningBackend<H100> backend;
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, backend);
  BudgetPlanner planner(*prepared, costs, backend.target(), {.effort = 0.1});
  const Bytes whole = planner.keepAll().arenaBytes;
  for (const bool isShort : {false, true}) {
    SCOPED_TRACE(isShort ? "smallest arena" : "everything kept");
    StepChoice choice = BudgetPlanner::copyOf(isShort ? planner.smallest() : planner.keepAll());
    ModuleOp placed = *choice.placed;
    const Counts before = countsOf(placed);
    const schedule::Cost timeBefore = costs.timeOf(stepGraph(placed)).total();
    runStage(placed, "place", [&](PassManager &manager) {
      manager.addPass(createFuseBiasGradientPass(backend.target()));
      addPlacedChecks(manager);
    });
    const Counts counts = countsOf(placed);
    EXPECT_EQ(before.made, 0);
    EXPECT_EQ(counts.all, before.all);
    EXPECT_LE(bytesAttr(placed, kLowerBoundAttr), choice.arenaBytes);
    EXPECT_EQ(bytesAttr(placed, kArenaBytesAttr), choice.arenaBytes);
    if (!isShort) {
      EXPECT_GT(counts.made, 0);
      EXPECT_GE(2 * counts.made, counts.all) << whole;
    }
    if (counts.made > 0)
      EXPECT_LT(costs.timeOf(stepGraph(placed)).total(), timeBefore);
  }
}

INSTANTIATE_TEST_SUITE_P(Random, FuseBiasGradient, testing::Range(0u, 24u));

} // namespace
} // namespace stow
