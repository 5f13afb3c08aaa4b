// Tests that masks in place of values change what memory a step takes and nothing else: the same models,
// whose kernels read the values themselves, end in the same bits.
#include "compiler/DataSheet.h"
#include "compiler/Pipeline.h"
#include "ir/Graphs.h"
#include "passes/fuse/Passes.h"
#include "passes/layout/Passes.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Budget.h"
#include "passes/plan/Stages.h"
#include "tests/compiler/OwnModel.h"

#include "mlir/Transforms/Passes.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace stow {
namespace {

struct Case {
  std::string name, activation; ///< the op with its attributes
  int64_t rows, columns;
};

/// A product, the activation, a product, four times over: the backward reads the activation's output for
/// the product behind it and of its input no more than a bit.
std::string model(const Case &c) {
  const std::string x =
      "tensor<" + std::to_string(c.rows) + "x" + std::to_string(c.columns) + "xf32>";
  const std::string w =
      "tensor<" + std::to_string(c.columns) + "x" + std::to_string(c.columns) + "xf32>";
  std::string arguments = "%in: " + x + " {stow.name = \"x\", stow.kind = #stow.kind<input>}", body;
  std::string last = "in";
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    arguments +=
        ", %w" + n + ": " + w + " {stow.name = \"w" + n +
        "\", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<\"normal\", 0.0, 0.5>}";
    body += "%p" + n + " = stow.matmul %" + last + ", %w" + n +
            " {transpose_a = false, transpose_b = true} : (" + x + ", " + w + ") -> " + x + "\n%y" +
            n + " = stow." + c.activation.substr(0, c.activation.find(' ')) + " %p" + n +
            c.activation.substr(c.activation.find(' ')) + " : (" + x + ") -> " + x + "\n";
    last = "y" + n;
  }
  return "module attributes {stow.form = \"model\"} {\nfunc.func @model(" + arguments + ") -> (" +
         x + " {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n" + body +
         "return %" + last + " : " + x + "\n}\n}\n";
}

class StoredMasks : public testing::TestWithParam<Case>, protected OwnModel {
protected:
  StoredMasks() {
    write(model(GetParam()));
    options.optimizer = parseOptimizer("sgd:lr=0.05");
  }

  const CostModel costs = loadDevice("cpu", 2);
};

TEST_P(StoredMasks, GiveTheSameBitsInLessMemory) {
  const std::unique_ptr<Backend> backend = chooseBackend(options);
  OwningOpRef<ModuleOp> wide = stepForm(context, options, *backend);
  OwningOpRef<ModuleOp> masked = prepareStep(context, options, *backend);
  (*wide)->setAttrs((*masked)->getAttrDictionary());
  runStage(*wide, "kernels that read values", [&](PassManager &manager) {
    manager.addPass(createAssignLayoutsPass(backend->target()));
    manager.addPass(createFuseElementwisePass());
    manager.addPass(createFuseProductConsumersPass(backend->target()));
    manager.addPass(createPlanWorkspacesPass(backend->target()));
  });
  BudgetPlanner widePlanner(*wide, costs, backend->target(), {.effort = 0.1});
  const std::vector<char> expected = trainPlaced(*widePlanner.keepAll().placed);

  BudgetPlanner planner(*masked, costs, backend->target(), {.effort = 0.1});
  EXPECT_LT(planner.keepAll().arenaBytes, widePlanner.keepAll().arenaBytes);
  EXPECT_TRUE(planner.refusals().empty());
  EXPECT_EQ(trainPlaced(*planner.keepAll().placed, Poison::Dying), expected);
  EXPECT_EQ(trainPlaced(*planner.smallest().placed, Poison::Dying), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Activations, StoredMasks,
    testing::Values(Case{"Clip", "clip {low = -0.5 : f64, high = 1.0 : f64}", 64, 40},
                    Case{"LeakyRelu", "leaky_relu {alpha = 0.1 : f64}", 131, 39},
                    Case{"HardSigmoid", "hard_sigmoid {alpha = 0.2 : f64, beta = 0.5 : f64}", 64,
                         33}),
    [](const auto &info) { return info.param.name; });

} // namespace
} // namespace stow
