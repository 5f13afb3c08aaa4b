#include "ir/plan/schedule/Problem.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

using ::testing::HasSubstr;

/// x (10 bytes) -> f -> y (20 bytes) -> g -> z (5 bytes)
Problem line() {
  Problem problem;
  ValueId x = problem.addValue("x", 10), y = problem.addValue("y", 20),
          z = problem.addValue("z", 5);
  problem.addOp("f", 3, {x}, {y});
  problem.addOp("g", 4, {y}, {z});
  return problem;
}

std::string fault(const Problem &problem) {
  try {
    check(problem);
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    return error.what();
  }
  return "";
}

// Tests that a legal problem passes and that its sums are right.
TEST(ProblemTest, AcceptsALegalProblem) {
  Problem problem = line();
  problem.addPinned("w", 100);
  EXPECT_EQ(fault(problem), "");
  EXPECT_EQ(problem.pinnedBytes(), 100);
  EXPECT_EQ(problem.leastTime(), 7);
  EXPECT_EQ(inputOrder(problem).runs, (std::vector<schedule::Run>{{0, 0}, {1, 0}}));
}

TEST(ProblemTest, CheapestAlternativePrefersLessWorkspace) {
  Op op;
  op.alternatives = {{5, 0}, {2, 90}, {2, 10}};
  EXPECT_EQ(cheapestAlternative(op), 2);
}

TEST(ProblemTest, RejectsReadsBeforeProduction) {
  Problem problem = line();
  std::swap(problem.ops[0], problem.ops[1]);
  EXPECT_THAT(fault(problem), HasSubstr("op \"g\": reads \"y\" before it is produced"));
}

TEST(ProblemTest, RejectsTwoProducers) {
  Problem problem = line();
  problem.addOp("h", 1, {}, {1});
  EXPECT_THAT(fault(problem), HasSubstr("op \"h\": writes \"y\", which has another producer"));
}

TEST(ProblemTest, RejectsReadsOfOverwrittenValues) {
  Problem problem = line();
  ValueId next = problem.addValueIn("y2", problem.values[1].storage);
  OpId op = problem.addOp("h", 1, {1}, {next});
  problem.ops[op].overwrites = {1};
  EXPECT_EQ(fault(problem), "");
  problem.addOp("late", 1, {1}, {});
  EXPECT_THAT(fault(problem), HasSubstr("op \"late\": reads \"y\" after it was overwritten"));
}

TEST(ProblemTest, RejectsOverwritesWithoutSharedStorage) {
  Problem problem = line();
  problem.ops[1].overwrites = {1};
  EXPECT_THAT(fault(problem), HasSubstr("no output shares its storage"));
}

TEST(ProblemTest, RejectsUnknownIdsAndNegativeFigures) {
  Problem problem = line();
  problem.ops[0].inputs = {7};
  EXPECT_THAT(fault(problem), HasSubstr("input value 7 does not exist"));
  problem = line();
  problem.ops[0].alternatives[0].cost = -1;
  EXPECT_THAT(fault(problem), HasSubstr("negative cost"));
  problem = line();
  problem.storages[0].sizeBytes = -1;
  EXPECT_THAT(fault(problem), HasSubstr("storage 0 has a negative size"));
  problem = line();
  problem.values[0].storage = 9;
  EXPECT_THAT(fault(problem), HasSubstr("storage 9 does not exist"));
}

// Tests that a copy of state is a copy and nothing else.
TEST(ProblemTest, RejectsMalformedCopiesOfState) {
  auto with = [](OpLane lane, auto change) {
    Problem problem;
    const ValueId x = problem.addValue("x", 4);
    problem.addValue("y", 4);
    problem.addPinned("w", 4);
    problem.addOp("x", 1, {}, {x});
    Op copy;
    copy.name = "copy";
    copy.alternatives = {{1, 0}};
    copy.recomputable = false;
    copy.lane = lane;
    (lane == OpLane::Out ? copy.inputs : copy.outputs).push_back(lane == OpLane::Out ? x : 1);
    change(copy);
    problem.ops.push_back(copy);
    return fault(problem);
  };
  for (OpLane lane : {OpLane::Out, OpLane::In})
    EXPECT_EQ(with(lane, [](Op &) {}), "");
  EXPECT_THAT(with(OpLane::Out, [](Op &op) { op.inputs = {}; }),
              HasSubstr("op \"copy\": is a copy out and sends one input; found 0"));
  EXPECT_THAT(with(OpLane::Out, [](Op &op) { op.inputs = {2}; }), HasSubstr("in a pinned storage"));
  EXPECT_THAT(with(OpLane::Out, [](Op &op) { op.outputs = {1}; }),
              HasSubstr("writes no bytes, but \"y\" has some"));
  EXPECT_THAT(with(OpLane::Out, [](Op &op) { op.recomputable = true; }), HasSubstr("runs once"));
  EXPECT_THAT(with(OpLane::In, [](Op &op) { op.inputs = {0}; }),
              HasSubstr("reads no bytes, but \"x\" has some"));
  EXPECT_THAT(with(OpLane::In, [](Op &op) { op.outputs = {}; }),
              HasSubstr("makes one output; found 0"));
  EXPECT_THAT(with(OpLane::In, [](Op &op) { op.alternatives.push_back({2, 0}); }),
              HasSubstr("has one alternative"));
  EXPECT_THAT(with(OpLane::In, [](Op &op) { op.alternatives[0].workspaceBytes = 1; }),
              HasSubstr("without a workspace"));
}

TEST(ProblemTest, RejectsSumsThatOverflow) {
  Problem problem = line();
  problem.storages[0].sizeBytes = int64_t(1) << 56;
  EXPECT_THAT(fault(problem), HasSubstr("sum of all sizes"));
  problem = line();
  problem.ops[1].alternatives[0].cost = int64_t(1) << 56;
  EXPECT_THAT(fault(problem), HasSubstr("sum of all costs"));
}

} // namespace
} // namespace stow::schedule
