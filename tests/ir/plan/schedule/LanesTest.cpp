#include "ir/plan/schedule/Lanes.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Json.h"
#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Problem pair() {
  Problem problem;
  problem.name = "pair";
  const ValueId x = problem.addValue("x", 10), y = problem.addValue("y", 0),
                w = problem.addPinned("w", 7);
  problem.addOp("x", 3, {w}, {x});
  problem.addOp("y", 4, {x}, {y});
  return problem;
}

Lanes slow() {
  Lanes lanes;
  lanes.out = {3, 2, 5};
  lanes.in = {1, 1, 0};
  lanes.slowBytes = 64;
  return lanes;
}

TEST(LanesTest, RoundsDurationsUp) {
  const Link link = {3, 2, 5}; // 3 bytes in 2 units
  EXPECT_EQ(link.duration(0), 5);
  EXPECT_EQ(link.duration(3), 7);
  EXPECT_EQ(link.duration(4), 8);
  EXPECT_EQ((Link{1, 1000, 0}).duration(Bytes(1) << 50), (Bytes(1) << 50) * 1000);
}

TEST(LanesTest, KnowsWhatMayTravel) {
  const Problem problem = pair();
  Lanes lanes = slow();
  EXPECT_THAT(lanes.mayTravel(problem), ElementsAre(1, 0, 0)) << "what is empty and pinned stays";
  Problem sent = problem;
  Op &send = sent.ops[sent.addOp("send", 1, {0}, {})];
  send.lane = OpLane::Out;
  EXPECT_THAT(lanes.mayTravel(sent), ElementsAre(0, 0, 0)) << "state has its own copies";
  lanes.stay = {0};
  EXPECT_THAT(lanes.mayTravel(problem), ElementsAre(0, 0, 0));
}

TEST(LanesTest, RefusesMalformedLanes) {
  auto refused = [](auto change) {
    return [change] {
      Lanes lanes = slow();
      change(lanes);
      check(pair(), lanes);
    };
  };
  EXPECT_NO_THROW(check(pair(), slow()));
  EXPECT_THAT(refused([](Lanes &lanes) { lanes.in.bandwidthBytes = 0; }),
              ThrowsMessage<Error>(HasSubstr("lane \"in\": expected a positive bandwidth")));
  EXPECT_THAT(refused([](Lanes &lanes) { lanes.out.latency = -1; }),
              ThrowsMessage<Error>(HasSubstr("lane \"out\": has a negative latency")));
  EXPECT_THAT(refused([](Lanes &lanes) { lanes.out.perCost = Cost(1) << 55; }),
              ThrowsMessage<Error>(HasSubstr("takes more than 2^56 cost units")));
  EXPECT_THAT(refused([](Lanes &lanes) { lanes.slowBytes = -1; }),
              ThrowsMessage<Error>(HasSubstr("slow memory has a negative capacity")));
  EXPECT_THAT(refused([](Lanes &lanes) { lanes.stay = {3}; }),
              ThrowsMessage<Error>(HasSubstr("storage 3 of those that stay does not exist")));
  EXPECT_THAT(refused([](Lanes &lanes) { lanes.stay = {1, 1}; }),
              ThrowsMessage<Error>(HasSubstr("expected ascending numbers")));
}

TEST(LanesTest, GoThroughJson) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Problem problem =
        seed % 2 ? generate(seed) : withTravellingState(seed, generate(seed), 3);
    const Lanes lanes = generateLanes(seed, problem);
    check(problem);
    check(problem, lanes);
    const std::string text = print(problem, lanes);
    const ProblemFile read = parseFile(text);
    ASSERT_EQ(read.problem, problem);
    ASSERT_EQ(read.lanes, lanes);
    ASSERT_FALSE(parseFile(print(problem)).lanes);
    EXPECT_THAT([&] { parse(text, "x.json"); },
                ThrowsMessage<Error>(HasSubstr("x.json: lanes: expected a problem without")));
  }
}

TEST(LanesTest, JsonErrorsNameTheMember) {
  const std::string good = print(pair(), slow());
  auto with = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return [text] { parseFile(text, "x.json"); };
  };
  EXPECT_THAT(with("\"bandwidth\":3", "\"bandwidth\":0"),
              ThrowsMessage<Error>(HasSubstr("lanes.out.bandwidth")));
  EXPECT_THAT(with("\"slow_bytes\":64", "\"slow_bytes\":\"64\""),
              ThrowsMessage<Error>(HasSubstr("lanes.slow_bytes")));
  EXPECT_THAT(with("\"in\":", "\"inwards\":"),
              ThrowsMessage<Error>(HasSubstr("lanes.in: this key is missing")));
}

TEST(LanesTest, SolutionsGoThroughJson) {
  const Problem problem = pair();
  const LaneSolution solution = {{{Step::Kind::Run, 0, 0},
                                  {Step::Kind::Out, 0, 0},
                                  {Step::Kind::AwaitOut, 0, 0},
                                  {Step::Kind::In, 0, 0},
                                  {Step::Kind::AwaitIn, 0, 0},
                                  {Step::Kind::Run, 1, 0}}};
  const std::string text = printSolution(problem, slow(), solution);
  EXPECT_THAT(text, HasSubstr("[\"await-out\", 0]"));
  EXPECT_THAT(text, HasSubstr("\"time\": 29, "));
  EXPECT_EQ(parseLaneSolution(text, problem), solution);
  auto with = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return [changed, &problem] { parseLaneSolution(changed, problem, "x.json"); };
  };
  EXPECT_THAT(with("\"await-out\"", "\"sleep\""),
              ThrowsMessage<Error>(HasSubstr("run, out, await-out, in or await-in")));
  EXPECT_THAT(with("[\"out\", 0]", "[\"out\", 3]"), ThrowsMessage<Error>(HasSubstr("steps[1][1]")));
  EXPECT_THAT(with("[\"out\", 0]", "[\"out\", 0, 0]"),
              ThrowsMessage<Error>(HasSubstr("[\"out\", value]")));
  EXPECT_THAT(with("\"steps\"", "\"runs\""),
              ThrowsMessage<Error>(HasSubstr("expected a schedule with copies")));
}

} // namespace
} // namespace stow::schedule
