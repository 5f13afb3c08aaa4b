// Tests the choice of a step as a value: what a question prepares, in which order, and what it answers.
#include "compiler/ModelSteps.h"
#include "tests/compiler/OwnModel.h"

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

/// Notes which variants are prepared.
class NotingSteps : public ModelSteps {
public:
  using ModelSteps::ModelSteps;

  PreparedStep prepare(const StepVariant &variant) override {
    prepared.push_back(variant);
    return ModelSteps::prepare(variant);
  }

  std::vector<StepVariant> prepared;
};

class Question : public testing::Test, protected OwnModel {
protected:
  Question() {
    write(kModel);
    options.loss = parseLoss("cross-entropy");
    source = std::make_unique<NotingSteps>(context, options, timer, BudgetOptions{.effort = 0.1});
  }

  Steps &steps() { return source->steps; }

  std::vector<int64_t> lossChunksPrepared() const {
    std::vector<int64_t> chunks;
    for (const StepVariant &variant : source->prepared)
      chunks.push_back(variant.lossChunks);
    return chunks;
  }

  StageTimer timer;
  std::unique_ptr<NotingSteps> source;
};

TEST_F(Question, AStepIsPreparedOnceWhileItIsHeld) {
  std::shared_ptr<ModelStep> held = steps().at({});
  EXPECT_EQ(steps().at({}), held);
  StepQuestion question;
  question.budget = parseByteBudget("90%");
  EXPECT_EQ(answer(steps(), question).step, held);
  EXPECT_EQ(source->prepared.size(), 1u);
  held.reset();
  steps().at({});
  EXPECT_EQ(source->prepared.size(), 2u) << "what nobody holds takes no memory";
}

TEST_F(Question, WhatDoesNotFitIsAnAnswerWithItsStep) {
  StepQuestion question;
  question.budget = parseByteBudget("1");
  const StepAnswer found = answer(steps(), question);
  ASSERT_FALSE(found.choice);
  EXPECT_EQ(found.arenaBudget(), 1);
  EXPECT_GT(found.step->planner().smallest().arenaBytes, 1);
}

TEST_F(Question, PiecesAreDoubledUntilTheyPayNoMore) {
  StepQuestion question;
  question.asked.lossChunks = kAny;
  question.allowance = Allowance();
  const StepAnswer found = answer(steps(), question);
  const std::vector<int64_t> tried = lossChunksPrepared();
  ASSERT_GE(tried.size(), 3u);
  for (size_t i = 0; i < tried.size(); ++i)
    EXPECT_EQ(tried[i], int64_t(1) << i);
  // The two behind the one that is taken were in vain.
  EXPECT_EQ(found.step->variant.lossChunks, tried[tried.size() - 3]);
  EXPECT_GT(found.step->variant.lossChunks, 1);
  EXPECT_LT(found.plan.arenaBytes, answer(steps(), {}).plan.arenaBytes);
}

TEST_F(Question, WhereNoPiecesFitTheSearchEndsWhereTheyTakeNoLess) {
  StepQuestion question;
  question.asked.lossChunks = kAny;
  question.budget = parseByteBudget("1");
  const StepAnswer found = answer(steps(), question);
  EXPECT_FALSE(found.choice);
  const std::vector<int64_t> tried = lossChunksPrepared();
  ASSERT_GE(tried.size(), 4u);
  EXPECT_EQ(found.step->variant.lossChunks, tried.back() / 4) << "two behind it were in vain";
  EXPECT_GT(found.step->variant.lossChunks, 1) << "pieces take less, if not little enough";
}

TEST_F(Question, AStepWithoutChainsIsAskedAboutInOnePiece) {
  StepQuestion question;
  question.asked.rowChunks = kAny;
  const StepAnswer found = answer(steps(), question);
  EXPECT_TRUE(found.choice);
  EXPECT_EQ(found.step->variant.rowChunks, 1);
  EXPECT_EQ(source->prepared.size(), 2u) << "whole, and in two to see that they are the same";
}

TEST_F(Question, TypesAreChosenOnceForEveryBudget) {
  options.precision = Precision::BF16;
  StepQuestion question;
  question.asked = variantOf(options);
  const StepAnswer kept = answer(steps(), question);
  const size_t once = source->prepared.size();
  question.budget = parseByteBudget(std::to_string(kept.plan.arenaBytes));
  EXPECT_EQ(answer(steps(), question).step, kept.step);
  EXPECT_EQ(source->prepared.size(), once);
  EXPECT_LE(kept.step->planner().keepAll().arenaBytes,
            steps().at({})->planner().keepAll().arenaBytes);
}

TEST_F(Question, AStepInF32HasNoOtherInF32) { EXPECT_EQ(steps().inF32(*steps().at({})), nullptr); }

} // namespace
} // namespace stow
