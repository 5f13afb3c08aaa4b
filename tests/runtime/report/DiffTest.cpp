#include "runtime/report/Diff.h"

#include "tests/runtime/format/TinyPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stow {
namespace {

using testing::HasSubstr;

/// The tiny plan with a hidden layer of twice the size, without the workspace, and with one more
/// temporary at the peak.
Plan makeLargerPlan() {
  Plan plan = makeTinyPlan();
  GraphPlan &train = plan.graphs[0];
  train.buffers[3].size = train.buffers[3].logicalSize = 256;
  train.buffers[4].begin = 3;
  train.buffers[4].end = 4;
  train.buffers.push_back(makeBuffer("mask", BufferKind::Activation, {16}, 512, 64, 2, 3));
  train.livePeakBytes = plan.livePeakBytes = 456 + 128 - 72 + 64;
  plan.arenaBytes = 640;
  return plan;
}

// Tests that equal plans differ in nothing.
TEST(DiffTest, EqualPlans) {
  const PlanDifference difference = comparePlans(makeTinyPlan(), makeTinyPlan());
  EXPECT_TRUE(difference.buffers.empty());
  EXPECT_FALSE(difference.grew);
  EXPECT_THAT(renderDifference(makeTinyPlan(), makeTinyPlan(), "a", "b", 20),
              HasSubstr("no buffer differs at the peak"));
}

// Tests order, causes and that the differences add up to that of the live peaks.
TEST(DiffTest, DifferencesAddUp) {
  const Plan before = makeTinyPlan(), after = makeLargerPlan();
  const PlanDifference difference = comparePlans(before, after);
  EXPECT_TRUE(difference.grew);
  ASSERT_EQ(difference.buffers.size(), 3u);
  EXPECT_EQ(difference.buffers[0].name, "hidden");
  EXPECT_EQ(difference.buffers[0].difference(), 128);
  EXPECT_EQ(difference.buffers[0].what, "larger");
  EXPECT_EQ(difference.buffers[1].name, "scratch");
  EXPECT_EQ(difference.buffers[1].difference(), -72);
  EXPECT_EQ(difference.buffers[1].what, "no longer live at the peak");
  EXPECT_EQ(difference.buffers[2].name, "mask");
  EXPECT_EQ(difference.buffers[2].what, "only in the second plan");
  Bytes sum = 0;
  for (const BufferDifference &entry : difference.buffers)
    sum += entry.difference();
  EXPECT_EQ(sum, after.livePeakBytes - before.livePeakBytes);
}

// Tests that a smaller arena is no growth, whatever its parts do.
TEST(DiffTest, Shrinks) {
  const PlanDifference difference = comparePlans(makeLargerPlan(), makeTinyPlan());
  EXPECT_FALSE(difference.grew);
  EXPECT_EQ(difference.buffers[2].what, "only in the first plan");
}

// Tests that rows beyond the limit are summed and that the total stays.
TEST(DiffTest, TextSumsTheRest) {
  const std::string text = renderDifference(makeTinyPlan(), makeLargerPlan(), "a", "b", 1);
  EXPECT_THAT(text, HasSubstr("arena, bytes"));
  EXPECT_THAT(text, HasSubstr("+128  +25.0 %"));
  EXPECT_THAT(text, HasSubstr("in 2 more"));
  EXPECT_THAT(text, HasSubstr("+120"));
}

// Tests the keys of the JSON form.
TEST(DiffTest, Json) {
  const auto json =
      nlohmann::ordered_json::parse(differenceToJson(makeTinyPlan(), makeLargerPlan()));
  EXPECT_EQ(json["grew"], true);
  EXPECT_EQ(json["before"]["arena_bytes"], 512);
  EXPECT_EQ(json["after"]["arena_bytes"], 640);
  EXPECT_EQ(json["buffers"][0]["difference_bytes"], 128);
  EXPECT_EQ(json["buffers"][0]["kind"], "activation");
}

} // namespace
} // namespace stow
