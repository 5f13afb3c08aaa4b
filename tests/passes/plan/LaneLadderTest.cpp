// Tests which rungs of the ladder with slow memory are packed, and which is taken.
#include "passes/plan/LaneLadder.h"

#include "ir/StowOffloadOps.h"
#include "ir/plan/schedule/Generate.h"
#include "passes/plan/Stages.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace stow {
namespace {

/// A chain of layers whose activations travel in no time, and what its rungs take.
class LaneLadderTest : public testing::Test {
protected:
  LaneLadderTest() : owner(ModuleOp::create(UnknownLoc::get(&context))) {
    step.problem = schedule::unitChainStep(40);
    for (schedule::Storage &storage : step.problem.storages)
      storage.sizeBytes *= kUnit;
    OpBuilder builder = OpBuilder::atBlockEnd(owner->getBody());
    const SmallVector<Type> types(step.problem.values.size(),
                                  RankedTensorType::get({kUnit / 4}, builder.getF32Type()));
    auto made =
        UnrealizedConversionCastOp::create(builder, builder.getUnknownLoc(), types, ValueRange());
    step.values.assign(made->result_begin(), made->result_end());
    slow.out = slow.in = {1000 * kUnit, 1, 0};
    slow.capacity = 1000 * kUnit;
  }

  /// Packing takes `overshoot` more than the live bytes, and these are `state` more than the schedule's.
  LaneLadder ladder(Bytes state, Bytes overshoot) {
    schedule::PlanOptions options;
    options.effort = 0.05;
    return LaneLadder(
        step, slow, options,
        [=, this](const schedule::LanePlanResult &row) {
          return LaneLadder::Outline{row.time + delay, row.peakBytes + state};
        },
        [=, this](const schedule::LanePlanResult &row) {
          packed.push_back(row.peakBytes + state);
          StepChoice choice;
          choice.time = row.time + delay;
          choice.arenaBytes = row.peakBytes + state + overshoot;
          choice.placed = ModuleOp::create(UnknownLoc::get(&context));
          (*choice.placed)
              ->setAttr(kSlowBytesAttr, Builder(&context).getI64IntegerAttr(row.slowPeakBytes));
          return choice;
        });
  }

  static constexpr Bytes kUnit = 65536;
  MLIRContext context;
  OwningOpRef<ModuleOp> owner;
  StepProblem step;
  SlowMemory slow;
  schedule::Cost delay = 0;  ///< of a step beside its schedule
  std::vector<Bytes> packed; ///< live bytes of what was
};

TEST_F(LaneLadderTest, PacksNothingWhoseLiveBytesDoNotFit) {
  constexpr Bytes state = 10 * kUnit, live = 20 * kUnit;
  const auto found = ladder(state, 0).fastest(live, live, schedule::kAnyTime);
  ASSERT_TRUE(found);
  EXPECT_LE(found->arenaBytes, live);
  EXPECT_GT(found->arenaBytes, live - kUnit) << "the first rung that fits, and none below it";
  EXPECT_EQ(packed, std::vector{found->arenaBytes});
}

TEST_F(LaneLadderTest, PacksTheNextRungWhereAnArenaIsLargerThanItsLiveBytes) {
  constexpr Bytes budget = 20 * kUnit, overshoot = 2 * kUnit;
  const auto found = ladder(0, overshoot).fastest(budget, budget, schedule::kAnyTime);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->arenaBytes, budget);
  EXPECT_EQ(packed, (std::vector<Bytes>{budget - kUnit, budget - overshoot}));
}

TEST_F(LaneLadderTest, PacksNothingThatTakesTooLong) {
  delay = 2;
  const schedule::Cost least = step.problem.leastTime();
  EXPECT_FALSE(ladder(0, 0).fastest(20 * kUnit, 20 * kUnit, least + 2));
  EXPECT_TRUE(packed.empty());
}

TEST_F(LaneLadderTest, TheSmallestIsTheLastRungAndNothingAboveItIsPacked) {
  const auto found = ladder(0, 0).smallest(60 * kUnit, 10 * kUnit);
  ASSERT_TRUE(found);
  EXPECT_EQ(packed, std::vector{found->arenaBytes});
}

} // namespace
} // namespace stow
