// Tests that ways to run a library call are weighed with everything else: the fastest without a
// budget, and under one the fastest that fits where the call stands.
#include "passes/memory/Implementations.h"
#include "codegen/host/HostTarget.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "ir/Graphs.h"
#include "ir/StowLinearOps.h"
#include "passes/memory/Liveness.h"
#include "passes/plan/Budget.h"
#include "tests/compiler/PlanningBackend.h"

#include <cmath>
#include <gmock/gmock.h>

using namespace mlir;

namespace stow {
namespace {

using testing::ElementsAre;

constexpr Bytes kLarge = Bytes{128} << 10, kMedium = Bytes{64} << 10;

/// The host's answers, but for three ways to run each convolution, and one that is good for nothing.
class TargetWithChoices : public host::HostTarget {
public:
  TargetWithChoices() : HostTarget(1) {}

  FailureOr<Requirements> query(Operation *op, ArrayRef<bool> freeLayouts) const override {
    auto answer = HostTarget::query(op, freeLayouts);
    if (succeeded(answer) && isa<Conv2dOp, Conv2dGradInputOp, Conv2dGradWeightOp>(op))
      answer->choices = {{"large", kLarge, 1},
                         {"useless", kLarge, 1.001},
                         {"none", 0, 1.02},
                         {"medium", kMedium, 1.01}};
    return answer;
  }
};

class ImplementationsTest : public testing::Test {
protected:
  ImplementationsTest() {
    prepareContext(context);
    options.modelPath = STOWAGE_SOURCE_DIR "/models/digits_cnn.onnx";
    options.import.batch = 32;
    finishOptions(options);
    prepared = prepareStep(context, options, backend);
    MeasuredCosts measured;
    costs = weighStep(*prepared, options, backend, measured);
  }

  /// The names of what is taken, by convolution of a graph in its order.
  static std::vector<std::string> taken(ModuleOp module, Role role) {
    std::vector<std::string> names;
    findGraph(module, role).walk([&](Operation *op) {
      if (const auto ways = implementationsOf(op); !ways.empty())
        names.push_back(ways[chosenImplementation(op)].name);
    });
    return names;
  }

  static bool runsAgain(ModuleOp module) {
    bool found = false;
    module.walk([&](Operation *op) { found |= op->hasAttr(kRecomputeAttr); });
    return found;
  }

  MLIRContext context;
  CompileOptions options;
  PlanningBackend<TargetWithChoices> backend;
  OwningOpRef<ModuleOp> prepared;
  CostModel costs;
};

TEST_F(ImplementationsTest, OnlyThoseWorthHavingAreListed) {
  auto conv = *findGraph(*prepared, Role::Train).getOps<Conv2dOp>().begin();
  std::vector<std::string> names;
  for (const auto &way : implementationsOf(conv))
    names.push_back(way.name);
  EXPECT_THAT(names, ElementsAre("large", "medium", "none"));
  EXPECT_EQ(costs.costOf(conv, 2), std::llround(1.02 * static_cast<double>(costs.costOf(conv))));
}

TEST_F(ImplementationsTest, WithoutABudgetTheFastestRunAndEvaluationTakesTheLeast) {
  BudgetPlanner planner(*prepared, costs, backend.target());
  ModuleOp placed = *planner.keepAll().placed;
  const std::vector<std::string> training = taken(placed, Role::Train);
  ASSERT_GE(training.size(), 11u);
  EXPECT_THAT(training, testing::Each("large"));
  EXPECT_THAT(taken(placed, Role::Eval), testing::Each("none"));
  EXPECT_EQ(planner.keepAll().time, planner.problem().leastTime());
}

TEST_F(ImplementationsTest, UnderABudgetTheFastestThatFitsRuns) {
  BudgetPlanner planner(*prepared, costs, backend.target());
  const Bytes full = planner.keepAll().arenaBytes;
  schedule::Cost before = planner.keepAll().time;
  for (Bytes budget : {full - 64, full - kMedium, full - kMedium - 64, full - kMedium * 3 / 2}) {
    std::optional<StepChoice> choice = planner.plan(budget);
    ASSERT_TRUE(choice) << budget;
    EXPECT_LE(choice->arenaBytes, budget);
    EXPECT_FALSE(runsAgain(*choice->placed)) << budget;
    EXPECT_GE(choice->time, planner.timeBound(budget));
    EXPECT_GE(choice->time, before) << "less memory in less time";
    before = choice->time;
    // Time is that of what was taken, and scratch too.
    auto graph = findGraph(*choice->placed, Role::Train);
    schedule::Cost slower = 0;
    bool isAnyFast = false;
    graph.walk([&](Operation *op) {
      const auto ways = implementationsOf(op);
      if (ways.empty())
        return;
      const unsigned chosen = chosenImplementation(op);
      slower += costs.costOf(op, chosen) - costs.costOf(op, 0);
      isAnyFast |= chosen == 0;
      auto workspace = op->getAttrOfType<IntegerAttr>(kWorkspaceAttr);
      EXPECT_EQ(workspace ? workspace.getInt() : 0, ways[chosen].workspaceBytes);
    });
    EXPECT_GT(slower, 0);
    EXPECT_EQ(choice->time, planner.keepAll().time + slower);
    EXPECT_TRUE(isAnyFast) << "calls away from the peak need not be slow";
  }
}

TEST_F(ImplementationsTest, TheSmallestArenaHasNoScratchAtItsPeak) {
  BudgetPlanner planner(*prepared, costs, backend.target());
  const StepChoice &smallest = planner.smallest();
  EXPECT_GE(smallest.arenaBytes, planner.lowerBound());
  EXPECT_LT(planner.lowerBound(), planner.keepAll().arenaBytes - kLarge);
  EXPECT_LT(smallest.arenaBytes, planner.keepAll().arenaBytes - kLarge);
}

} // namespace
} // namespace stow
