#include "passes/solvers/schedule/lanes/PlaceCopies.h"
#include "ir/plan/Random.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"
#include "ir/plan/schedule/VerifyLanes.h"
#include "passes/solvers/schedule/lanes/ChooseAway.h"
#include "tests/Cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

using test::cases;
using ::testing::ElementsAre;

/// The input order, on every third seed with a run twice where that is legal.
Solution scheduleOf(const Problem &problem, uint64_t seed) {
  Solution solution = inputOrder(problem);
  if (seed % 3 == 0 && !solution.runs.empty()) {
    Solution again = solution;
    again.runs.insert(again.runs.begin() + static_cast<int64_t>(again.runs.size() / 2 + 1),
                      again.runs[seed / 3 % (again.runs.size() / 2 + 1)]);
    if (!verify(problem, again).fault)
      return again;
  }
  return solution;
}

Lanes anything(const Problem &problem, uint64_t seed) {
  Lanes lanes = generateLanes(seed, problem);
  lanes.slowBytes = kAnyBytes / 4;
  return lanes;
}

// Tests that a residency has the checker's bytes and times.
TEST(ResidencyTest, CountsAsTheCheckerDoes) {
  for (uint64_t seed = 1; seed <= cases(2000u); ++seed) {
    const Problem problem = generate(seed);
    const Solution solution = scheduleOf(problem, seed);
    const Residency residency(problem, anything(problem, seed), solution);
    const Replay replay = verify(problem, solution);
    ASSERT_EQ(replay.fault, std::nullopt);
    ASSERT_EQ(residency.runs(), static_cast<int32_t>(replay.bytesAt.size()));
    for (size_t i = 0; i < replay.bytesAt.size(); ++i)
      ASSERT_EQ(residency.bytesAt[i], replay.bytesAt[i]) << "seed " << seed << " at " << i;
    ASSERT_EQ(residency.runTime(), replay.time);
  }
}

// Tests the spells of a small graph: a is idle between its readers 1 and 3, its copy out could start
// behind run 0. What is pinned has none.
TEST(ResidencyTest, FindsIdleSpells) {
  Problem problem;
  const ValueId a = problem.addValue("a", 8), b = problem.addValue("b", 4),
                c = problem.addValue("c", 2), d = problem.addValue("d", 1),
                w = problem.addPinned("w", 9);
  problem.addOp("a", 1, {w}, {a});
  problem.addOp("b", 2, {a}, {b});
  problem.addOp("c", 3, {b}, {c});
  problem.addOp("d", 4, {a, c, w}, {d});
  const Residency residency(problem, anything(problem, 2), inputOrder(problem));
  ASSERT_EQ(residency.spells.size(), 1u);
  const Spell &spell = residency.spells[0];
  EXPECT_EQ(spell.from, 1);
  EXPECT_EQ(spell.to, 3);
  EXPECT_EQ(spell.ready, 1);
  EXPECT_EQ(spell.bytes, 8);
  EXPECT_EQ(spell.value, a);
  EXPECT_THAT(residency.startOf, ElementsAre(0, 1, 3, 6, 10));
}

// Tests the copies of state: m has no buffer before its reader, and its copy out may start behind the
// update. What is fetched again comes behind the last touch.
TEST(ResidencyTest, KnowsCopiesOfState) {
  Problem problem;
  const ValueId g = problem.addValue("g", 4), m = problem.addValue("m", 8),
                next = problem.addValueIn("next", problem.values[m].storage);
  Op &fetch = problem.ops[problem.addOp("fetch", 5, {}, {m})];
  fetch.lane = OpLane::In;
  problem.addOp("g", 1, {m}, {g});
  problem.ops[problem.addOp("update", 2, {m, g}, {next})].overwrites = {m};
  Op &send = problem.ops[problem.addOp("send", 7, {next}, {})];
  send.lane = OpLane::Out;
  send.recomputable = false;
  const Solution solution = {{{0, 0}, {1, 0}, {0, 0}, {2, 0}, {3, 0}}};
  const Residency residency(problem, anything(problem, 2), solution);
  EXPECT_THAT(residency.bytesAt, ElementsAre(0, 12, 4, 12, 0, 0));
  EXPECT_THAT(residency.startOf, ElementsAre(0, 0, 1, 1, 3, 3));
  EXPECT_THAT(residency.isCopy, ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(residency.copied, ElementsAre(0, 2, 3));
  const auto isSpell = [](Spell::Kind kind, int32_t from, int32_t to, ValueId value, OpId op) {
    return ::testing::AllOf(::testing::Field(&Spell::kind, kind),
                            ::testing::Field(&Spell::from, from), ::testing::Field(&Spell::to, to),
                            ::testing::Field(&Spell::value, value),
                            ::testing::Field(&Spell::op, op));
  };
  EXPECT_THAT(residency.spells, ElementsAre(isSpell(Spell::Kind::Fetch, -1, 1, m, 0),
                                            isSpell(Spell::Kind::Idle, 1, 3, g, 0),
                                            isSpell(Spell::Kind::Fetch, 1, 3, m, 0),
                                            isSpell(Spell::Kind::Send, 3, 6, next, 3)));
  const Placement placement = placeCopies(residency, {}, 12, residency.runTime());
  EXPECT_THAT(stepsOf(residency, solution, placement).steps,
              ElementsAre(Step{Step::Kind::Run, 0, 0}, Step{Step::Kind::AwaitIn, m, 0},
                          Step{Step::Kind::Run, 1, 0}, Step{Step::Kind::Run, 0, 0},
                          Step{Step::Kind::AwaitIn, m, 0}, Step{Step::Kind::Run, 2, 0},
                          Step{Step::Kind::Run, 3, 0}, Step{Step::Kind::AwaitOut, next, 0}));
}

TEST(RangePeakTest, AgreesWithAPlainList) {
  Random random(7);
  for (int size : {1, 2, 3, 7, 8, 9, 100}) {
    std::vector<Bytes> plain;
    for (int i = 0; i < size; ++i)
      plain.push_back(random.integer(-50, 50));
    RangePeak peaks(plain);
    for (int i = 0; i < 200; ++i) {
      auto first = static_cast<int32_t>(random.integer(0, size - 1)), last = first;
      last = static_cast<int32_t>(random.integer(first, size - 1));
      const Bytes bytes = random.integer(-20, 20);
      peaks.add(first, last, bytes);
      for (int32_t at = first; at <= last; ++at)
        plain[at] += bytes;
      first = static_cast<int32_t>(random.integer(0, size - 1));
      last = static_cast<int32_t>(random.integer(first, size - 1));
      ASSERT_EQ(peaks.peak(first, last),
                *std::max_element(plain.begin() + first, plain.begin() + last + 1));
      ASSERT_EQ(peaks.peak(), *std::max_element(plain.begin(), plain.end()));
    }
  }
}

// Tests that whatever spells go, and however far ahead copies come in, the steps are legal within
// the budget, and take the time and the bytes that the placement says.
TEST(PlaceCopiesTest, IsLegalAndKnowsItsTime) {
  int travelled = 0;
  for (uint64_t seed = 1; seed <= cases(3000u); ++seed) {
    const Problem problem = seed % 5 == 0   ? generateInPlace(seed, 5)
                            : seed % 5 == 1 ? generateChainStep(seed, 9)
                            : seed % 5 == 2
                                ? withTravellingState(seed, generateChainStep(seed, 7), 4)
                            : seed % 5 == 3 ? withTravellingState(seed, generate(seed), 4)
                                            : generate(seed);
    const Lanes lanes = anything(problem, seed);
    const Solution solution = scheduleOf(problem, seed);
    const Residency residency(problem, lanes, solution);
    Random random(seed);
    std::vector<int32_t> away;
    RangePeak peaks(residency.bytesAt);
    for (size_t i = 0; i < residency.spells.size(); ++i)
      if (residency.spells[i].kind == Spell::Kind::Idle && random.chance(0.6)) {
        away.push_back(static_cast<int32_t>(i));
        peaks.add(residency.spells[i].from + 1, residency.spells[i].to - 1,
                  -residency.spells[i].bytes);
      }
    const Bytes budget = peaks.peak() + random.integer(0, 2) * random.integer(0, 20);
    for (Cost ahead : {Cost(0), residency.runTime() / 4, residency.runTime()}) {
      const Placement placement = placeCopies(residency, away, budget, ahead);
      const LaneReplay replay =
          verify(problem, lanes, stepsOf(residency, solution, placement), budget);
      ASSERT_EQ(replay.fault, std::nullopt) << "seed " << seed;
      ASSERT_EQ(replay.time, timeOf(residency, lanes, placement)) << "seed " << seed;
      ASSERT_EQ(replay.slowPeakBytes, placement.slowPeakBytes) << "seed " << seed;
      ASSERT_EQ(replay.bytesOut, placement.bytesOut);
      ASSERT_EQ(replay.bytesIn, placement.bytesIn);
      travelled += replay.bytesIn > 0;
    }
  }
  EXPECT_GT(travelled, 100);
}

// Tests that every rule meets every budget that can be met, and takes nothing that it can do
// without.
TEST(ChooseAwayTest, MeetsBudgetsWithoutNeedlessSpells) {
  int chosen = 0;
  for (uint64_t seed = 1; seed <= cases(500u); ++seed) {
    const Problem problem =
        seed % 4 ? generate(seed) : withTravellingState(seed, generate(seed), 4);
    const Lanes lanes = anything(problem, seed);
    const Residency residency(problem, lanes, scheduleOf(problem, seed));
    RangePeak all(residency.bytesAt);
    for (const Spell &spell : residency.spells)
      if (spell.kind == Spell::Kind::Idle)
        all.add(spell.from + 1, spell.to - 1, -spell.bytes);
    for (AwayRule rule : kAwayRules) {
      const AwayChooser chooser(residency, rule);
      EXPECT_FALSE(chooser.choose(all.peak() - 1));
      for (Bytes budget : {all.peak(), (all.peak() + residency.peak()) / 2, residency.peak()}) {
        const std::optional<std::vector<int32_t>> away = chooser.choose(budget);
        ASSERT_TRUE(away) << "seed " << seed;
        RangePeak peaks(residency.bytesAt);
        for (int32_t number : *away) {
          const Spell &spell = residency.spells[number];
          peaks.add(spell.from + 1, spell.to - 1, -spell.bytes);
        }
        ASSERT_LE(peaks.peak(), budget) << "seed " << seed;
        for (int32_t number : *away) {
          const Spell &spell = residency.spells[number];
          ASSERT_GT(peaks.peak(spell.from + 1, spell.to - 1) + spell.bytes, budget);
        }
        chosen += !away->empty();
      }
    }
  }
  EXPECT_GT(chosen, 100);
}

} // namespace
} // namespace stow::schedule
