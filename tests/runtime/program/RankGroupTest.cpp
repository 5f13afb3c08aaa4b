// What ranks compare before they train and how they save, with others that answer as a test says.
#include "runtime/program/RankGroup.h"

#include "runtime/base/Error.h"
#include "runtime/base/Shards.h"
#include "runtime/program/Checkpoint.h"
#include "tests/runtime/data/DataFiles.h"
#include "tests/runtime/program/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>

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
  bool mayBeCalledBeside() const override { return true; }
  void setWatch(RankWatch given) override { watch = std::move(given); }
  void waitUntil(const std::function<bool()> &) override {}
  void lose(const std::string &why) override { throw RankLost(why); }
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

/// Rank 0 of two, which save. The other one does not come to exchange number `missing`, counted from 0, and may not see the folder.
class MissingRank : public OtherRanks {
public:
  MissingRank(int64_t missing, bool seesFolder)
      : OtherRanks(-1), missing(missing), seesFolder(seesFolder) {}

  int64_t size() const override { return 2; }
  void gather(const float *own, int64_t count, float *all) override {
    next();
    for (int64_t rank = 0; rank < size(); ++rank)
      std::copy_n(own, count, all + rank * count);
  }
  std::vector<uint64_t> gather(uint64_t own) override {
    const uint64_t error = exchanges == kOpens && !seesFolder ? ENOENT : 0;
    next();
    return {own, error};
  }

  int64_t exchanges = 0;

private:
  void next() {
    if (exchanges++ == missing)
      throw RankLost("rank 1 does not answer");
  }

  /// Of a save, the exchange that tells who can open the file: behind what is wanted, and its name and place.
  static constexpr int64_t kOpens = 3;

  int64_t missing;
  bool seesFolder;
};

/// The momentum in two shards.
Program makeShardedModel() {
  Program program = makeTinyModel({});
  program.devices = 2;
  StateTensor &momentum = *std::ranges::find(program.state, "w.momentum", &StateTensor::name);
  momentum.shardOf = momentum.place.shape;
  momentum.place.shape = {shardElements(elementCount(momentum.place.shape), program.devices)};
  return program;
}

/// Saves, and returns the exchanges that were begun. `isLost`: whether that threw RankLost.
int64_t exchangesOfSave(int64_t missing, const std::string &path, bool seesFolder, bool &isLost,
                        bool &isWhole) {
  const Program program = makeShardedModel();
  const auto ranks = std::make_shared<MissingRank>(missing, seesFolder);
  RankGroup team(program, ranks, true);
  Executor executor(program, tinyImage(), {});
  ShardedState *const shards = team.shardsOf(executor);
  RunState run;
  run.rows = program.batch;
  run.rate.stepsPerEpoch = 1;
  isLost = isWhole = false;
  try {
    team.save([&] {
      CheckpointWriter(executor, path, CheckpointWriter::What::Run, shards).save(run, [&] {
        isWhole = true;
      });
    });
  } catch (const RankLost &) {
    isLost = true;
  } catch (const Error &) { // the file cannot be written, which the other has been told
  }
  return ranks->exchanges;
}

// Tests that a rank that is lost anywhere in a save is an error there, behind which no exchange begins: while all write, while shards are collected for rank 0
// to write, when the others are told of the end, also of one whose file cannot be written, and behind that. A file that has all is there and said to be whole.
TEST(RankGroupTest, LosesARankInTheMiddleOfASave) {
  struct Case {
    const char *name;
    bool seesFolder;
    int64_t exchanges, whole; ///< all, and those before the file is in its place
  };
  const testfiles::TempDir dir;
  bool isLost = false, isWhole = false;
  for (const Case &c : {Case{"together.safetensors", true, 7,
                             5}, // behind kOpens who has written; the end; whether it is saved
                        Case{"collected.safetensors", false, 8, 6}, // what is wanted, the shards
                        Case{"none/none.safetensors", true, 2, 2}}) {
    SCOPED_TRACE(c.name);
    const std::string path = dir.path(c.name);
    const bool isWritten = c.exchanges > 2;
    const int64_t all = exchangesOfSave(-1, path, c.seesFolder, isLost, isWhole);
    EXPECT_FALSE(isLost);
    EXPECT_EQ(isWhole, isWritten);
    ASSERT_EQ(all, c.exchanges);
    for (int64_t missing = 0; missing < all; ++missing) {
      std::filesystem::remove(path);
      EXPECT_EQ(exchangesOfSave(missing, path, c.seesFolder, isLost, isWhole), missing + 1);
      EXPECT_TRUE(isLost) << missing;
      EXPECT_EQ(isWhole, isWritten && missing >= c.whole) << missing;
      EXPECT_EQ(std::filesystem::exists(path), isWhole) << missing;
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path("")), {}), 2)
      << "unfinished files are left";
}

} // namespace
} // namespace stow::test
