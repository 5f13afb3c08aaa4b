#include "ir/plan/schedule/Verify.h"
#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Solution runs(std::vector<OpId> ops) {
  Solution solution;
  for (OpId op : ops)
    solution.runs.push_back({op, 0});
  return solution;
}

/// position   0  1  2  3      a is read by b and d
/// a (8)      [--------]
/// b (4)         [--]
/// c (2)            [--]
/// d (1)               .
Problem diamond() {
  Problem problem;
  ValueId a = problem.addValue("a", 8), b = problem.addValue("b", 4), c = problem.addValue("c", 2),
          d = problem.addValue("d", 1);
  problem.addOp("a", 1, {}, {a});
  problem.addOp("b", 2, {a}, {b});
  problem.addOp("c", 3, {b}, {c});
  problem.addOp("d", 4, {a, c}, {d});
  return problem;
}

// Tests that values live from their run to their last reader, both included.
TEST(VerifyTest, CountsTheInputOrder) {
  Replay replay = verify(diamond(), runs({0, 1, 2, 3}));
  EXPECT_EQ(replay.fault, std::nullopt);
  EXPECT_THAT(replay.bytesAt, ElementsAre(8, 12, 14, 11));
  EXPECT_EQ(replay.peakBytes, 14);
  EXPECT_EQ(replay.peakPosition, 2u);
  EXPECT_EQ(replay.time, 10);
}

// Tests that running a again before d frees its 8 bytes at position 2.
TEST(VerifyTest, CountsARerun) {
  Replay replay = verify(diamond(), runs({0, 1, 2, 0, 3}));
  EXPECT_THAT(replay.bytesAt, ElementsAre(8, 12, 6, 10, 11));
  EXPECT_EQ(replay.time, 11);
}

// Tests that capacities hold position by position: b, c take 12 and 14 bytes at positions 1 and 2.
TEST(VerifyTest, HoldsEveryPositionToItsCapacity) {
  const Problem problem = diamond();
  const Solution once = runs({0, 1, 2, 3});
  EXPECT_EQ(verify(problem, once, {14, {}}).fault, std::nullopt);
  EXPECT_THAT(*verify(problem, once, {13, {}}).fault,
              HasSubstr("position 2, op \"c\": 14 bytes, but there is room for 13"));
  // 2 bytes less from the first run of a to that of b leave room for 12.
  EXPECT_EQ(verify(problem, once, {14, {{0, 1, 2}}}).fault, std::nullopt);
  EXPECT_EQ(verify(problem, once, {14, {{1, 0, 2}}}).fault, std::nullopt) << "in any order";
  EXPECT_THAT(*verify(problem, once, {14, {{0, 1, 3}}}).fault,
              HasSubstr("position 1, op \"b\": 12 bytes, but there is room for 11"));
  // Windows that overlap add up: at position 1 there is room for 14 - 1 - 2 = 11.
  EXPECT_THAT(*verify(problem, once, {14, {{0, 1, 1}, {1, 1, 2}}}).fault,
              HasSubstr("position 1, op \"b\": 12 bytes, but there is room for 11"));
}

// Tests that a window holds for reruns between its ends, and not for those outside: a' takes 10
// bytes at position 3, between the first runs of c and d.
TEST(VerifyTest, CapacitiesHoldForRerunsInTheWindow) {
  const Problem problem = diamond();
  const Solution again = runs({0, 1, 2, 0, 3});
  EXPECT_EQ(verify(problem, again, {12, {{0, 0, 4}}}).fault, std::nullopt) << "not a'";
  EXPECT_THAT(*verify(problem, again, {12, {{2, 3, 3}}}).fault,
              HasSubstr("position 3, op \"a\": 10 bytes, but there is room for 9"));
}

TEST(VerifyTest, RefusesCapacitiesOfAnotherProblem) {
  const Problem problem = diamond();
  const Solution once = runs({0, 1, 2, 3});
  auto messageOf = [&](Window window) -> std::string {
    try {
      verify(problem, once, {14, {window}});
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(messageOf({0, 4, 1}), HasSubstr("window 0: op 4 does not exist; expected 0 to 3"));
  EXPECT_THAT(messageOf({-1, 2, 1}), HasSubstr("window 0: op -1 does not exist"));
  EXPECT_THAT(messageOf({0, 1, -5}),
              HasSubstr("window 0: withholds -5 bytes; expected at least 0"));
  EXPECT_THAT(messageOf({0, 1, 5}), "");
}

TEST(VerifyTest, CountsWorkspaceAndAlternatives) {
  Problem problem = diamond();
  problem.ops[2].alternatives = {{3, 100}, {9, 7}};
  EXPECT_EQ(verify(problem, runs({0, 1, 2, 3})).peakBytes, 114);
  Solution slow = runs({0, 1, 2, 3});
  slow.runs[2].alternative = 1;
  EXPECT_EQ(verify(problem, slow).peakBytes, 21);
  EXPECT_EQ(verify(problem, slow).time, 16);
}

// Tests that c may be written over b, which dies there: 14 - 2 bytes.
TEST(VerifyTest, CreditsOverwriteOptions) {
  Problem problem = diamond();
  problem.ops[2].mayOverwrite = {{2, 1}};
  EXPECT_THAT(verify(problem, runs({0, 1, 2, 3})).bytesAt, ElementsAre(8, 12, 12, 11));
  // No credit where the input lives on (b is read again by d).
  problem.ops[3].inputs.push_back(1);
  EXPECT_THAT(verify(problem, runs({0, 1, 2, 3})).bytesAt, ElementsAre(8, 12, 14, 15));
  // Nor where the output is larger than the input.
  problem = diamond();
  problem.storages[2].sizeBytes = 5;
  problem.ops[2].mayOverwrite = {{2, 1}};
  EXPECT_EQ(verify(problem, runs({0, 1, 2, 3})).bytesAt[2], 17);
}

TEST(VerifyTest, OneInputServesOneCredit) {
  Problem problem;
  ValueId a = problem.addValue("a", 8), b = problem.addValue("b", 4), c = problem.addValue("c", 4);
  problem.addOp("a", 1, {}, {a});
  problem.addOp("bc", 1, {a}, {b, c});
  problem.ops[1].mayOverwrite = {{b, a}, {c, a}};
  EXPECT_THAT(verify(problem, runs({0, 1})).bytesAt, ElementsAre(8, 12));
}

// Tests that a view adds no bytes and keeps its storage alive.
TEST(VerifyTest, ViewsShareTheirStorage) {
  Problem problem;
  ValueId a = problem.addValue("a", 8),
          view = problem.addValueIn("view", problem.values[a].storage),
          b = problem.addValue("b", 1), c = problem.addValue("c", 1);
  problem.addOp("a", 1, {}, {a});
  problem.addOp("view", 0, {a}, {view});
  problem.addOp("b", 1, {}, {b});
  problem.addOp("c", 1, {view, b}, {c});
  EXPECT_THAT(verify(problem, runs({0, 1, 2, 3})).bytesAt, ElementsAre(8, 8, 9, 10));
  // A second run of a makes a second copy; the view still shows the first one.
  EXPECT_THAT(verify(problem, runs({0, 1, 0, 2, 3})).bytesAt, ElementsAre(8, 8, 16, 9, 10));
}

// Tests in-place versions: no extra bytes, and the old version is gone.
TEST(VerifyTest, OverwritesReplaceTheOldVersion) {
  Problem problem;
  ValueId a = problem.addValue("a", 8),
          next = problem.addValueIn("next", problem.values[a].storage),
          b = problem.addValue("b", 1);
  problem.addOp("a", 1, {}, {a});
  problem.addOp("next", 1, {a}, {next});
  problem.ops[1].overwrites = {a};
  problem.addOp("b", 1, {next}, {b});
  EXPECT_THAT(verify(problem, runs({0, 1, 2})).bytesAt, ElementsAre(8, 8, 9));
  EXPECT_THAT(*verify(problem, runs({0, 1, 1, 2})).fault, HasSubstr("reads \"a\""));
  EXPECT_THAT(verify(problem, runs({0, 1, 0, 1, 2})).bytesAt, ElementsAre(8, 8, 8, 8, 9));
}

// Tests that pinned bytes count everywhere, and that a pinned version can be overwritten once.
TEST(VerifyTest, PinnedStoragesAreAlwaysThere) {
  Problem problem = diamond();
  ValueId w = problem.addPinned("w", 50);
  ValueId next = problem.addValueIn("w2", problem.values[w].storage);
  problem.addOp("update", 1, {w, 3}, {next});
  problem.ops[4].overwrites = {w};
  problem.ops[4].recomputable = false;
  problem.ops[0].inputs = {w};
  EXPECT_THAT(verify(problem, runs({0, 1, 2, 3, 4})).bytesAt, ElementsAre(58, 62, 64, 61, 51));
  // a reads the old weights, which are gone after the update.
  EXPECT_THAT(*verify(problem, runs({0, 1, 2, 3, 4, 0})).fault, HasSubstr("reads \"w\""));
  EXPECT_THAT(*verify(problem, runs({0, 1, 2, 3, 4, 4})).fault, HasSubstr("not recomputable"));
}

// Tests that a source without a pinned storage dies after its last reader, and kept values do not.
TEST(VerifyTest, SourcesAndKeptValues) {
  Problem problem;
  ValueId x = problem.addValue("x", 10), y = problem.addValue("y", 3), z = problem.addValue("z", 2);
  problem.addOp("y", 1, {x}, {y});
  problem.addOp("z", 1, {}, {z});
  EXPECT_THAT(verify(problem, runs({0, 1})).bytesAt, ElementsAre(13, 2));
  problem.values[y].keep = true;
  EXPECT_THAT(verify(problem, runs({0, 1})).bytesAt, ElementsAre(13, 5));
  problem.values[x].keep = true;
  EXPECT_THAT(verify(problem, runs({0, 1})).bytesAt, ElementsAre(13, 15));
}

TEST(VerifyTest, NamesFaults) {
  EXPECT_THAT(*verify(diamond(), runs({0, 1, 3})).fault,
              HasSubstr("position 2, op \"d\": reads \"c\", which is not available"));
  EXPECT_THAT(*verify(diamond(), runs({0, 1, 2})).fault, HasSubstr("op \"d\" never runs"));
  EXPECT_THAT(*verify(diamond(), runs({0, 9})).fault, HasSubstr("op 9 does not exist"));
  Solution solution = runs({0, 1, 2, 3});
  solution.runs[1].alternative = 3;
  EXPECT_THAT(*verify(diamond(), solution).fault, HasSubstr("alternative 3 does not exist"));
}

} // namespace
} // namespace stow::schedule
