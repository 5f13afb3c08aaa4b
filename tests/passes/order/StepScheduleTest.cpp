// Tests what a schedule makes of a graph: which runs move an op, and which are clones.
#include "passes/order/ScheduleProblem.h"

#include "ir/Graphs.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace stow;
using testing::ElementsAre;

namespace {

class ApplySchedule : public testing::Test {
protected:
  /// a = exp x, b = tanh x, y = mul a, b with the runs given. The ops that are left, "'" behind clones.
  std::vector<std::string> applied(const std::vector<schedule::Run> &runs) {
    context.loadDialect<StowDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(R"(
      func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> tensor<4xf32> attributes {stow.role = #stow.role<train>} {
        %a = stow.exp %x : (tensor<4xf32>) -> tensor<4xf32>
        %b = stow.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
        %y = stow.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        return %y : tensor<4xf32>
      })",
                                         ParserConfig(&context));
    auto graph = findGraph(*module, Role::Train);
    const StepProblem step = buildStepProblem(graph, CostModel(), 64);
    clones = applySchedule(graph, step, {runs});
    EXPECT_TRUE(succeeded(module->verify()));
    std::vector<std::string> left;
    for (Operation &op : graph.front().without_terminator())
      left.push_back(op.getName().stripDialect().str() + (op.hasAttr(kRecomputeAttr) ? "'" : ""));
    for (Operation *op : step.ops) // what first runs are told apart by
      EXPECT_EQ(op->getBlock(), &graph.front());
    return left;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  unsigned clones = 0;
};

TEST_F(ApplySchedule, MovesFirstRunsThatNobodyReads) {
  EXPECT_THAT(applied({{0}, {1}, {0}, {2}}), ElementsAre("tanh", "exp", "mul"));
  EXPECT_EQ(clones, 0u); // nobody reads the first run: it moves to the second
  EXPECT_THAT(applied({{0}, {1}, {2}, {0}, {2}}), ElementsAre("tanh", "exp", "mul"));
  EXPECT_EQ(clones, 0u); // nor that of the product, and so on
  EXPECT_THAT(applied({{0}, {1}, {2}, {1}}), ElementsAre("exp", "tanh", "mul"));
  EXPECT_EQ(clones, 0u); // nor the last
}

} // namespace
