#include "runtime/host/Shards.h"

#include "runtime/base/Error.h"
#include "runtime/base/Shards.h"
#include "runtime/format/Reduction.h"

#include <algorithm>
#include <barrier>
#include <gtest/gtest.h>
#include <thread>

namespace stow::host {
namespace {

/// Ranks that are threads: each shows the others where its values lie.
class ThreadRanks : public Ranks {
public:
  struct Team {
    explicit Team(int64_t size) : shown(size), meeting(size) {}
    std::vector<const float *> shown;
    std::barrier<> meeting;
  };
  ThreadRanks(Team &team, int64_t rank) : team(team), own(rank) {}

  int64_t rank() const override { return own; }
  int64_t size() const override { return static_cast<int64_t>(team.shown.size()); }
  std::string library() const override { return "threads"; }
  bool mayBeCalledBeside() const override { return true; }
  void setWatch(RankWatch) override { abort(1); }
  void waitUntil(const std::function<bool()> &) override { abort(1); }
  void lose(const std::string &) override { abort(1); }
  void scatter(const float *values, int64_t count, int64_t first, int64_t piece,
               float *received) override {
    const ShardRange part = shardPart(count, size(), own, first, piece);
    together(values, [&](int64_t other, const float *its) {
      std::copy(its + part.begin, its + part.end, received + other * part.size());
    });
  }
  void join(const float *shard, int64_t count, int64_t first, int64_t piece,
            float *values) override {
    together(shard + first, [&](int64_t other, const float *its) {
      const ShardRange part = shardPart(count, size(), other, first, piece);
      std::copy(its, its + part.size(), values + part.begin);
    });
  }

  void gather(const float *, int64_t, float *) override { abort(1); }
  void sum(float *, int64_t, char *) override { abort(1); }
  void broadcast(std::span<char>) override { abort(1); }
  std::vector<uint64_t> gather(uint64_t) override { abort(1); }
  [[noreturn]] void abort(int) override { std::abort(); }

private:
  template <typename Take> void together(const float *values, const Take &take) {
    team.shown[own] = values;
    team.meeting.arrive_and_wait();
    for (int64_t other = 0; other < size(); ++other)
      take(other, team.shown[other]);
    team.meeting.arrive_and_wait();
  }

  Team &team;
  int64_t own;
};

Command commandOf(CommandOp op, int64_t count, int64_t ranks) {
  Command command;
  command.op = op;
  command.name = "w";
  command.ints["ranks"] = {ranks};
  const Bytes bytes = count * Bytes{sizeof(float)};
  const Operand whole = {0, DType::F32, {count}, {}},
                shard = {bytes, DType::F32, {shardElements(count, ranks)}, {}};
  command.operands =
      op == CommandOp::AllGather ? std::vector{shard, whole, whole} : std::vector{whole, shard};
  command.workspaceOffset = bytes + shardElements(count, ranks) * Bytes{sizeof(float)};
  command.workspaceBytes = scatterScratchBytes(count, ranks);
  return command;
}

/// What an element of a rank is: such that sums depend on their order.
float element(int64_t rank, int64_t i) {
  return static_cast<float>(i % 1013) * 0.37f +
         (rank == 1 ? 1e7f : 0.1f * static_cast<float>(rank));
}

/// Runs the command on all ranks, whose whole values are elements; returns their arenas. A gather names an old value, or none.
std::vector<std::vector<float>> runOnAll(CommandOp op, int64_t count, int64_t ranks,
                                         bool hasOld = true) {
  Command command = commandOf(op, count, ranks);
  if (!hasOld)
    command.operands.erase(command.operands.begin() + 1);
  std::vector<std::vector<float>> arenas(ranks);
  ThreadRanks::Team team(ranks);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ThreadRanks own(team, rank);
      std::vector<float> &arena = arenas[rank];
      arena.assign((command.workspaceOffset + command.workspaceBytes) / sizeof(float), -1);
      for (int64_t i = 0; i < count; ++i)
        arena[i] = element(rank, i);
      for (int64_t i = 0; i < shardElements(count, ranks); ++i)
        arena[count + i] = element(0, rank * shardElements(count, ranks) + i);
      bindShards(command, reinterpret_cast<char *>(arena.data()), &own)->run();
    });
  for (std::thread &thread : threads)
    thread.join();
  return arenas;
}

// What does not divide, what is smaller than the ranks are many, and what takes several pieces.
constexpr std::pair<int64_t, int64_t> cases[] = {
    {10, 2}, {10, 3}, {3, 4}, {2 * kReductionChunk + 5, 3}};

// Tests that each rank gets its part of the sums, added up in the order of the ranks, and zeros behind the end.
TEST(ShardsTest, ReduceScatterAddsInOrder) {
  for (auto [count, ranks] : cases) {
    const auto arenas = runOnAll(CommandOp::ReduceScatter, count, ranks);
    const int64_t each = shardElements(count, ranks);
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t i = 0; i < each; ++i) {
        float sum = 0;
        for (int64_t other = 0; other < ranks && rank * each + i < count; ++other)
          sum += element(other, rank * each + i);
        ASSERT_EQ(arenas[rank][count + i], sum)
            << count << " on " << ranks << ": " << rank << ", " << i;
      }
  }
}

// Tests that a rank's shard of what it has is that part, and zeros behind the end.
TEST(ShardsTest, ShardIsAPart) {
  for (auto [count, ranks] : cases) {
    const auto arenas = runOnAll(CommandOp::Shard, count, ranks);
    const int64_t each = shardElements(count, ranks);
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t i = 0; i < each; ++i)
        ASSERT_EQ(arenas[rank][count + i],
                  rank * each + i < count ? element(rank, rank * each + i) : 0);
  }
}

// Tests that all ranks get all shards in their order, and nothing behind the end of the parameter.
TEST(ShardsTest, AllGatherJoinsThem) {
  for (auto [count, ranks] : cases)
    for (const bool hasOld : {true, false}) {
      const auto arenas = runOnAll(CommandOp::AllGather, count, ranks, hasOld);
      for (const std::vector<float> &arena : arenas) {
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(arena[i], element(0, i));
        ASSERT_EQ(arena[count], // the shard, which lies there
                  element(0, (&arena - arenas.data()) * shardElements(count, ranks)));
      }
    }
}

// Tests that a command of other ranks, of another shard and with too little scratch is refused by name.
TEST(ShardsTest, RefusesWhatDoesNotFit) {
  ThreadRanks::Team team(2);
  ThreadRanks ranks(team, 0);
  auto problem = [&](const Command &command, Ranks *engine) -> std::string {
    try {
      bindShards(command, nullptr, engine);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  const Command command = commandOf(CommandOp::ReduceScatter, 10, 2);
  EXPECT_EQ(problem(command, &ranks), "");
  EXPECT_NE(problem(command, nullptr).find("mpirun -n 2"), std::string::npos);
  EXPECT_NE(problem(commandOf(CommandOp::Shard, 10, 3), &ranks).find("is of 3 ranks"),
            std::string::npos);
  Command other = command;
  other.operands[1].shape = {4};
  EXPECT_NE(problem(other, &ranks).find("expected a shard of 5 elements of 10, found 4"),
            std::string::npos);
  other = command;
  other.workspaceBytes = 8;
  EXPECT_NE(problem(other, &ranks).find("bytes of scratch"), std::string::npos);
}

} // namespace
} // namespace stow::host
