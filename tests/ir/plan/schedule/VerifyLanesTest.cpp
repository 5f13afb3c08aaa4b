#include "ir/plan/schedule/VerifyLanes.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"
#include "runtime/base/Error.h"
#include "tests/Cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Step run(OpId op) { return {Step::Kind::Run, op, 0}; }
Step out(ValueId value) { return {Step::Kind::Out, value, 0}; }
Step in(ValueId value) { return {Step::Kind::In, value, 0}; }
Step awaitOut(ValueId value) { return {Step::Kind::AwaitOut, value, 0}; }
Step awaitIn(ValueId value) { return {Step::Kind::AwaitIn, value, 0}; }

constexpr ValueId a = 0, b = 1, c = 2, d = 3;

/// a (8 bytes) is read by b and d; b (4) by c; c (2) by d, which writes d (1). Ops take 1 to 4.
Problem diamond() {
  Problem problem;
  problem.addValue("a", 8);
  problem.addValue("b", 4);
  problem.addValue("c", 2);
  problem.addValue("d", 1);
  problem.addOp("a", 1, {}, {a});
  problem.addOp("b", 2, {a}, {b});
  problem.addOp("c", 3, {b}, {c});
  problem.addOp("d", 4, {a, c}, {d});
  return problem;
}

/// 4 bytes in a unit of cost out, 2 in: a takes 2 out, 4 in.
Lanes lanes() {
  Lanes result;
  result.out = {4, 1, 0};
  result.in = {2, 1, 0};
  result.slowBytes = 100;
  return result;
}

LaneReplay replay(std::vector<Step> steps, Bytes budget = kAnyBytes) {
  return verify(diamond(), lanes(), {std::move(steps)}, budget);
}

// Tests who holds what when, and the clock of the three lanes:
//   step     0 1    2   3   4  5  6 7
//            a out  b   w   in c  w d      w: await
//   compute  a      bb         ccc.dddd    1 + 2 + 3 + 1 + 4
//   out        [aa]                        1 to 3
//   in                     [aaaa]          3 to 7
TEST(VerifyLanesTest, ReplaysBytesAndTimes) {
  const LaneReplay whole =
      replay({run(0), out(a), run(1), awaitOut(a), in(a), run(2), awaitIn(a), run(3)});
  EXPECT_EQ(whole.fault, std::nullopt);
  EXPECT_THAT(whole.bytesAt, ElementsAre(8, 8, 12, 12, 12, 14, 10, 11));
  EXPECT_THAT(whole.slowBytesAt, ElementsAre(0, 8, 8, 8, 8, 8, 8, 0));
  EXPECT_THAT(whole.begins, ElementsAre(0, 1, 1, 3, 3, 3, 6, 7));
  EXPECT_THAT(whole.ends, ElementsAre(1, 3, 3, 3, 7, 6, 7, 11));
  EXPECT_EQ(whole.time, 11);
  EXPECT_EQ(whole.computeTime, 10);
  EXPECT_EQ(whole.copyTime, 6);
  EXPECT_EQ(whole.exposed(), 1);
  EXPECT_EQ(whole.hidden(), 5);
  EXPECT_EQ(whole.bytesOut, 8);
  EXPECT_EQ(whole.bytesIn, 8);
  EXPECT_EQ(whole.peakBytes, 14);
  EXPECT_EQ(whole.slowPeakBytes, 8);
}

// Tests that a buffer is gone between the await of its copy out and its copy in: c runs beside b
// and its own 2 bytes only.
TEST(VerifyLanesTest, FreesWhatIsAway) {
  const LaneReplay late =
      replay({run(0), out(a), run(1), awaitOut(a), run(2), in(a), awaitIn(a), run(3)});
  EXPECT_THAT(late.bytesAt, ElementsAre(8, 8, 12, 12, 6, 10, 10, 11));
  EXPECT_EQ(late.time, 14) << "nothing hides the copy in";
}

TEST(VerifyLanesTest, CopiesInOneDirectionQueue) {
  Problem problem = diamond();
  problem.values[b].keep = true;
  const LaneReplay queued = verify(problem, lanes(),
                                   {{run(0), run(1), out(a), out(b), awaitOut(b), awaitOut(a),
                                     in(b), in(a), awaitIn(a), awaitIn(b), run(2), run(3)}});
  EXPECT_EQ(queued.fault, std::nullopt);
  EXPECT_THAT(queued.begins, ElementsAre(0, 1, 3, 5, 3, 6, 6, 8, 6, 12, 12, 15));
  EXPECT_EQ(queued.time, 19);
}

TEST(VerifyLanesTest, HoldsBothCapacities) {
  const std::vector<Step> steps = {run(0), out(a), run(1),     awaitOut(a),
                                   run(2), in(a),  awaitIn(a), run(3)};
  EXPECT_EQ(replay(steps, 12).fault, std::nullopt);
  EXPECT_THAT(*replay(steps, 11).fault,
              HasSubstr("step 2, run \"b\": 12 bytes of fast memory, but there is room for 11"));
  Lanes small = lanes();
  small.slowBytes = 7;
  EXPECT_THAT(*verify(diamond(), small, {steps}).fault,
              HasSubstr("step 1, out \"a\": 8 bytes of slow memory, but there is room for 7"));
}

// Tests that a copy once in slow memory serves any number of copies in, and is gone after the last.
TEST(VerifyLanesTest, CopiesInTwiceFromOneCopyOut) {
  const LaneReplay twice = replay(
      {run(0), out(a), awaitOut(a), in(a), awaitIn(a), run(1), in(a), awaitIn(a), run(2), run(3)});
  EXPECT_EQ(twice.fault, std::nullopt);
  EXPECT_EQ(twice.bytesOut, 8);
  EXPECT_EQ(twice.bytesIn, 16);
  EXPECT_THAT(twice.slowBytesAt, ElementsAre(0, 8, 8, 8, 8, 8, 8, 8, 0, 0));
}

/// A list of steps and what the checker must say of it.
struct Broken {
  std::vector<Step> steps;
  const char *fault;
};

TEST(VerifyLanesTest, RefusesBrokenSolutions) {
  const std::vector<Broken> all = {
      {{run(0), out(a), run(1), awaitOut(a), run(2), in(a), run(3)},
       "step 6, run \"d\": reads \"a\", whose copy in is not awaited"},
      {{run(0), out(a), run(1), in(a)}, "step 3, in \"a\": its copy out is not awaited"},
      {{run(0), run(1), in(a)}, "step 2, in \"a\": is not in slow memory"},
      {{out(a)}, "step 0, out \"a\": is not in fast memory"},
      {{run(0), out(a), out(a)}, "its last copy out is not awaited"},
      {{run(0), out(a), awaitOut(a), in(a), out(a)}, "its copy in is not awaited"},
      {{run(0), out(a), awaitOut(a), in(a), in(a)}, "its last copy in is not awaited"},
      {{run(0), awaitOut(a)}, "step 1, await-out \"a\": no copy out has started"},
      {{run(0), awaitIn(a)}, "step 1, await-in \"a\": no copy in has started"},
      {{run(0), run(1), run(2), run(3), out(c)}, "value \"c\": a copy out is never awaited"},
      {{run(0), out(a), run(1), awaitOut(a), run(2), run(3), in(a)},
       "value \"a\": a copy in is never awaited"},
      {{run(0), run(1), run(2)}, "op \"d\" never runs"},
      {{run(1)}, "reads \"a\", which is not available"},
      {{run(7)}, "step 0, run 7: does not exist"},
      {{out(9)}, "step 0, out 9: does not exist"},
      {{{Step::Kind::Run, 0, 1}}, "alternative 1 does not exist"},
  };
  for (const Broken &broken : all) {
    const LaneReplay found = replay(broken.steps);
    ASSERT_TRUE(found.fault) << broken.fault;
    EXPECT_THAT(*found.fault, HasSubstr(broken.fault));
  }
}

TEST(VerifyLanesTest, RefusesWhatHasToStay) {
  Lanes staying = lanes();
  staying.stay = {0};
  EXPECT_THAT(*verify(diamond(), staying, {{run(0), out(a)}}).fault,
              HasSubstr("step 1, out \"a\": its storage has to stay"));
  Problem problem = diamond();
  const ValueId weight = problem.addPinned("w", 5);
  EXPECT_THAT(*verify(problem, lanes(), {{out(weight)}}).fault, HasSubstr("has to stay"));
}

/// x is overwritten by `next`, which y and the end read; before that, z reads x.
struct Overwriting {
  Problem problem;
  ValueId x = problem.addValue("x", 8), z = problem.addValue("z", 2),
          next = problem.addValueIn("next", problem.values[x].storage),
          y = problem.addValue("y", 1);
  Overwriting() {
    problem.addOp("x", 1, {}, {x});
    problem.addOp("z", 1, {x}, {z});
    problem.ops[problem.addOp("next", 1, {x}, {next})].overwrites = {x};
    problem.addOp("y", 1, {next, z}, {y});
  }
};

// Tests that an op that writes into a buffer waits for the copy that reads it.
TEST(VerifyLanesTest, RefusesWritesBeneathACopyOut) {
  const Overwriting o;
  EXPECT_THAT(
      *verify(o.problem, lanes(), {{run(0), out(o.x), run(1), run(2), awaitOut(o.x), run(3)}})
           .fault,
      HasSubstr("step 3, run \"next\": writes \"next\" beneath a copy out that is not awaited"));
  EXPECT_EQ(
      verify(o.problem, lanes(), {{run(0), out(o.x), run(1), awaitOut(o.x), run(2), run(3)}}).fault,
      std::nullopt);
}

// Tests that what is overwritten here is still there in slow memory.
TEST(VerifyLanesTest, KeepsOldVersionsInSlowMemory) {
  const Overwriting o;
  const LaneReplay back =
      verify(o.problem, lanes(),
             {{run(0), out(o.x), awaitOut(o.x), run(2), in(o.x), awaitIn(o.x), run(1), run(3)}});
  EXPECT_EQ(back.fault, std::nullopt);
  EXPECT_THAT(back.bytesAt, ElementsAre(8, 8, 8, 8, 16, 16, 18, 11));
  EXPECT_THAT(*verify(o.problem, lanes(), {{run(0), run(2), run(1), run(3)}}).fault,
              HasSubstr("reads \"x\", which is not available"));
}

// Tests that a view comes back with its buffer, unless it has been computed again meanwhile.
TEST(VerifyLanesTest, BringsViewsBack) {
  Problem problem;
  const ValueId x = problem.addValue("x", 8),
                view = problem.addValueIn("view", problem.values[x].storage),
                y = problem.addValue("y", 1);
  problem.addOp("x", 1, {}, {x});
  problem.addOp("view", 0, {x}, {view});
  problem.addOp("y", 1, {x, view}, {y});
  EXPECT_EQ(verify(problem, lanes(),
                   {{run(0), run(1), out(x), awaitOut(x), in(view), awaitIn(view), run(2)}})
                .fault,
            std::nullopt);
  EXPECT_THAT(*verify(problem, lanes(), {{run(0), out(x), run(1)}}).fault,
              HasSubstr("writes \"view\" beneath a copy out"));
  const LaneReplay without =
      verify(problem, lanes(), {{run(0), out(x), awaitOut(x), in(x), awaitIn(x), run(1), run(2)}});
  EXPECT_EQ(without.fault, std::nullopt);
}

// Tests that a copy out keeps an input from being overwritten in place.
TEST(VerifyLanesTest, GrantsCreditsOnlyBehindCopies) {
  Problem problem = diamond();
  problem.ops[2].mayOverwrite = {{c, b}};
  const std::vector<Step> plain = {run(0), run(1), run(2), run(3)};
  EXPECT_THAT(verify(problem, lanes(), {plain}).bytesAt, ElementsAre(8, 12, 12, 11));
  const LaneReplay read =
      verify(problem, lanes(), {{run(0), run(1), out(b), run(2), awaitOut(b), run(3)}});
  EXPECT_THAT(read.bytesAt, ElementsAre(8, 12, 12, 14, 14, 11));
}

/// A moment m of 8 bytes lies in slow memory: fetched, written over with the gradient g of 4 bytes, and sent; z is work beside.
struct Moment {
  Problem problem;
  ValueId g = problem.addValue("g", 4), m = problem.addValue("m", 8),
          next = problem.addValueIn("next", problem.values[m].storage),
          z = problem.addValue("z", 1);
  Moment() {
    problem.addOp("g", 10, {}, {g});
    Op &fetch = problem.ops[problem.addOp("fetch", 70, {}, {m})];
    fetch.lane = OpLane::In;
    fetch.recomputable = false;
    problem.ops[problem.addOp("update", 1, {m, g}, {next})].overwrites = {m};
    Op &send = problem.ops[problem.addOp("send", 70, {next}, {})];
    send.lane = OpLane::Out;
    send.recomputable = false;
    problem.addOp("z", 5, {}, {z});
    check(problem);
  }
};

// Tests state that starts and ends in slow memory, where it takes nothing of the capacity:
//   compute  gggggggggg|u|zzzzz
//   in       [fetch 4]
//   out                  [send 2]
TEST(VerifyLanesTest, CopiesState) {
  const Moment o;
  Lanes none = lanes();
  none.slowBytes = 0;
  const LaneReplay beside = verify(
      o.problem, none, {{run(1), run(0), awaitIn(o.m), run(2), run(3), run(4), awaitOut(o.next)}});
  EXPECT_EQ(beside.fault, std::nullopt);
  EXPECT_THAT(beside.bytesAt, ElementsAre(8, 12, 12, 12, 8, 9, 8));
  EXPECT_THAT(beside.begins, ElementsAre(0, 0, 10, 10, 11, 11, 16));
  EXPECT_THAT(beside.ends, ElementsAre(4, 10, 10, 11, 13, 16, 16));
  EXPECT_EQ(beside.time, 16);
  EXPECT_EQ(beside.computeTime, 16);
  EXPECT_EQ(beside.copyTime, 6);
  EXPECT_EQ(beside.bytesIn, 8);
  EXPECT_EQ(beside.bytesOut, 8);
  EXPECT_EQ(beside.slowPeakBytes, 0);
  const LaneReplay behind =
      verify(o.problem, none, withoutCopies(o.problem, inputOrder(o.problem)));
  EXPECT_EQ(behind.fault, std::nullopt);
  EXPECT_EQ(behind.time, 10 + 4 + 1 + 2 + 5);
  EXPECT_EQ(behind.peakBytes, 12);
}

TEST(VerifyLanesTest, RefusesBrokenCopiesOfState) {
  const Moment o;
  const std::vector<Broken> all = {
      {{run(0), run(2)}, "step 1, run \"update\": reads \"m\", which is not available"},
      {{run(0), run(1), run(2)}, "reads \"m\", whose copy in is not awaited"},
      {{run(0), run(3)}, "step 1, run \"send\": sends \"next\", which is not available"},
      {{run(1), awaitIn(o.m), run(1)}, "runs again, but is not recomputable"},
      {{run(1), awaitIn(o.m), out(o.m)}, "out \"m\": its storage has to stay"},
      {{run(0), run(1), awaitIn(o.m), run(2), run(4)}, "op \"send\" never runs"},
      {{run(0), run(1), awaitIn(o.m), run(2), run(3), run(4)}, "a copy out is never awaited"},
  };
  for (const Broken &broken : all) {
    const LaneReplay found = verify(o.problem, lanes(), {broken.steps});
    ASSERT_TRUE(found.fault) << broken.fault;
    EXPECT_THAT(*found.fault, HasSubstr(broken.fault));
  }
  Problem again = o.problem; // writes over what is on its way
  const ValueId last = again.addValueIn("last", again.values[o.next].storage);
  again.ops[again.addOp("clear", 1, {o.next}, {last})].overwrites = {o.next};
  EXPECT_THAT(
      *verify(again, lanes(), {{run(0), run(1), awaitIn(o.m), run(2), run(3), run(5)}}).fault,
      HasSubstr("run \"clear\": writes \"last\" beneath a copy out that is not awaited"));
  Problem twice =
      o.problem; // what may be fetched again is fetched when the last copy has been awaited
  twice.ops[1].recomputable = true;
  EXPECT_THAT(*verify(twice, lanes(), {{run(1), run(1)}}).fault,
              HasSubstr("its last copy in is not awaited"));
}

// Tests a weight w that is fetched from its place, again where it is needed again, and never once the update has replaced what lies there;
// and that nothing fetches while that happens.
TEST(VerifyLanesTest, FetchesWhatIsNotReplaced) {
  Problem problem;
  const ValueId place = problem.addPinned("place", 0), w = problem.addValue("w", 8),
                a = problem.addValue("a", 1),
                next = problem.addValueIn("next", problem.values[w].storage),
                replaced = problem.addValueIn("replaced", problem.values[place].storage);
  Op &fetch = problem.ops[problem.addOp("fetch", 4, {place}, {w})];
  fetch.lane = OpLane::In;
  problem.addOp("a", 10, {w}, {a});
  Op &update = problem.ops[problem.addOp("update", 1, {w, a, place}, {next, replaced})];
  update.overwrites = {w, place};
  update.recomputable = false;
  Op &send = problem.ops[problem.addOp("send", 2, {next}, {})];
  send.lane = OpLane::Out;
  send.recomputable = false;
  check(problem);
  const LaneReplay twice =
      verify(problem, lanes(),
             {{run(0), awaitIn(w), run(1), run(0), awaitIn(w), run(2), run(3), awaitOut(next)}});
  EXPECT_EQ(twice.fault, std::nullopt);
  EXPECT_EQ(twice.bytesIn, 16);
  EXPECT_THAT(*verify(problem, lanes(),
                      {{run(0), awaitIn(w), run(1), run(2), run(3), run(0), awaitIn(w), run(1)}})
                   .fault,
              HasSubstr("run \"fetch\": fetches \"place\", which has been replaced"));
  const Solution late = {{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 0}, {1, 0}}};
  EXPECT_TRUE(verify(problem, late).fault.has_value());
  problem.ops[2].inputs = {a, place}; // does not wait for what it replaces
  problem.ops[2].outputs = {replaced};
  problem.ops[2].overwrites = {place};
  problem.ops[3].inputs = {w};
  EXPECT_THAT(*verify(problem, lanes(), {{run(0), awaitIn(w), run(1), run(0), run(2)}}).fault,
              HasSubstr("run \"update\": replaces \"place\", which a copy in still reads"));
}

// Tests on random problems that without copies both checkers say the same.
TEST(VerifyLanesTest, AgreesWithTheCheckerWithoutLanes) {
  for (uint64_t seed = 1; seed <= test::cases(2000u); ++seed) {
    const Problem problem = generate(seed);
    Solution order = inputOrder(problem);
    if (seed % 3 == 0 && problem.ops.size() > 2)
      order.runs.insert(order.runs.begin() + static_cast<int64_t>(seed % order.runs.size()),
                        order.runs[seed % 2]);
    const Replay plain = verify(problem, order);
    const LaneReplay steps =
        verify(problem, generateLanes(seed, problem), withoutCopies(problem, order));
    ASSERT_EQ(plain.fault.has_value(), steps.fault.has_value()) << "seed " << seed;
    if (plain.fault)
      continue;
    ASSERT_EQ(plain.bytesAt, steps.bytesAt) << "seed " << seed;
    ASSERT_EQ(plain.time, steps.time) << "seed " << seed;
    ASSERT_EQ(runsOf(withoutCopies(problem, order)), order);
  }
}

} // namespace
} // namespace stow::schedule
