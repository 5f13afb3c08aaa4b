// What ranks compare before they train, with others that answer as a test says.
#include "runtime/program/RankGroup.h"

#include "runtime/base/Error.h"
#include "tests/runtime/program/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Rank 0 of three. The last one differs in what is compared as number `differs`, counted from 0.
class OtherRanks : public Ranks {
public:
  explicit OtherRanks(int64_t differs) : differs(differs) {}

  int64_t rank() const override { return 0; }
  int64_t size() const override { return 3; }
  std::string library() const override { return "Some MPI v7.1, package: 3"; }
  void setWatch(RankWatch given) override { watch = std::move(given); }
  void sum(float *, int64_t, char *) override {}
  void scatter(const float *, int64_t, int64_t, int64_t, float *) override {}
  void join(const float *, int64_t, int64_t, int64_t, float *) override {}
  void gather(const float *, int64_t, float *) override {}
  void broadcast(std::span<char>) override {}
  std::vector<uint64_t> gather(uint64_t own) override {
    return {own, own, compared++ == differs ? own + 1 : own};
  }
  void abort(int) override { throw Error::internal("ended"); }

  RankWatch watch;
  int64_t compared = 0;

private:
  int64_t differs;
};

std::string refusal(int64_t differs) {
  const Program program = makeTinyModel({});
  const auto ranks = std::make_shared<OtherRanks>(differs);
  RankGroup team(program, ranks, false);
  try {
    team.compareProgram(program);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

// Tests that a rank is refused by its number and by what it has: all that the bits of a run depend on.
TEST(RankGroupTest, RefusesWhatComputesOtherwise) {
  EXPECT_THAT(refusal(0), HasSubstr("rank 2 has another program than rank 0; start one file"));
  EXPECT_THAT(refusal(1),
              HasSubstr("rank 2 has another version of Stowage than rank 0; rank 0 has "));
  EXPECT_THAT(refusal(2),
              HasSubstr("rank 2 has another executable than rank 0; both hold the same"));
  EXPECT_THAT(refusal(3),
              HasSubstr("rank 2 has another MPI library than rank 0; rank 0 has Some MPI "
                        "v7.1: start all ranks by one launcher"));
  EXPECT_EQ(refusal(4), "");
}

// Tests that a rank waits as long as it is told to, which a process that is alone refuses.
TEST(RankGroupTest, WaitsAsLongAsItIsTold) {
  const Program program = makeTinyModel({});
  const auto ranks = std::make_shared<OtherRanks>(0);
  RankGroup team(program, ranks, false), alone(program, nullptr, false);
  team.setTimeout(std::nullopt);
  EXPECT_EQ(ranks->watch.patience, std::chrono::minutes(10));
  team.setTimeout(7);
  EXPECT_EQ(ranks->watch.patience, std::chrono::seconds(7));
  team.watch([] { return true; }, {});
  EXPECT_EQ(ranks->watch.patience, std::chrono::seconds(7));
  EXPECT_TRUE(ranks->watch.isAskedToEnd());
  alone.setTimeout(std::nullopt);
  EXPECT_THROW(alone.setTimeout(7), Error);
}

} // namespace
} // namespace stow::test
