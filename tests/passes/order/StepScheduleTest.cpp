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

/// A product whose operand travels meanwhile: what is read behind its return is what has come.
class ApplyCopies : public testing::Test {
protected:
  std::vector<std::string> applied(const std::vector<schedule::Step> &steps) {
    context.loadDialect<StowDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(R"(
      func.func @train(%x: tensor<2048xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> tensor<2x1024xf32> attributes {stow.role = #stow.role<train>} {
        %a = stow.exp %x : (tensor<2048xf32>) -> tensor<2048xf32>
        %v = stow.reshape %a : (tensor<2048xf32>) -> tensor<2x1024xf32>
        %b = stow.tanh %v : (tensor<2x1024xf32>) -> tensor<2x1024xf32>
        %y = stow.mul %v, %b {stow.phase = #stow.phase<backward>} : (tensor<2x1024xf32>, tensor<2x1024xf32>) -> tensor<2x1024xf32>
        return %y : tensor<2x1024xf32>
      })",
                                         ParserConfig(&context));
    auto graph = findGraph(*module, Role::Train);
    step = buildStepProblem(graph, CostModel(), 64);
    applySchedule(graph, step, schedule::LaneSolution{steps});
    EXPECT_TRUE(succeeded(module->verify()));
    std::vector<std::string> left;
    for (Operation &op : graph.front().without_terminator())
      left.push_back(op.getName().stripDialect().str());
    return left;
  }

  using Kind = schedule::Step::Kind;
  static constexpr int x = 0, a = 1, b = 2; ///< values of the problem
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  StepProblem step;
};

TEST_F(ApplyCopies, ReadersBehindAnAwaitReadWhatHasCome) {
  EXPECT_THAT(applied({{Kind::Run, 0},
                       {Kind::Out, a},
                       {Kind::Run, 1},
                       {Kind::AwaitOut, a},
                       {Kind::In, a},
                       {Kind::AwaitIn, a},
                       {Kind::Run, 2}}),
              ElementsAre("exp", "copy_out", "reshape", "tanh", "await_out", "copy_in", "await_in",
                          "reshape", "mul"));
  auto graph = findGraph(*module, Role::Train);
  auto op = [&](int number) { return &*std::next(graph.front().begin(), number); };
  EXPECT_EQ(op(1)->getOperand(0), op(0)->getResult(0));
  EXPECT_EQ(op(7)->getOperand(0), op(6)->getResult(0)); // the view is made again
  EXPECT_EQ(op(8)->getOperand(0), op(7)->getResult(0));
}

TEST_F(ApplyCopies, WhatNobodyReadsDoesNotTravel) {
  EXPECT_THAT(applied({{Kind::Run, 0},
                       {Kind::Out, a},
                       {Kind::Run, 1},
                       {Kind::AwaitOut, a},
                       {Kind::In, a},
                       {Kind::AwaitIn, a},
                       {Kind::Run, 0},
                       {Kind::Run, 2}}),
              ElementsAre("exp", "reshape", "tanh", "exp", "reshape", "mul"));
}

TEST_F(ApplyCopies, InputsAndSmallValuesStay) {
  applied({{Kind::Run, 0}, {Kind::Run, 1}, {Kind::Run, 2}});
  EXPECT_THAT(stayingStorages(step), ElementsAre(x)); // not a, b and y, which have 8192 bytes
  for (schedule::Storage &storage : step.problem.storages)
    storage.sizeBytes = 4095;
  EXPECT_EQ(stayingStorages(step).size(), step.problem.storages.size());
}

} // namespace
