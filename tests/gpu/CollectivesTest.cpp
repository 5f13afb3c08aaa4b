// Commands of several ranks on the stand-ins for libcuda and NCCL: each rank is a process with a GPU of its own.
#include "runtime/cuda/Collectives.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Shards.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace stow::cuda {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kMost = 4, kText = 1000;
constexpr Bytes kArena = Bytes{1} << 20;

/// What the processes of a test share.
struct Meeting {
  std::atomic<int> arrived, phase;
  uint64_t numbers[kMost];
  char bytes[256];
  char said[kMost][kText];
};

/// Ranks that are processes of this test. `patience` is how long one waits for its GPU.
class TestRanks : public Ranks {
public:
  TestRanks(Meeting &meeting, int64_t size, int64_t rank)
      : meeting(meeting), count(size), own(rank) {}

  int64_t rank() const override { return own; }
  int64_t size() const override { return count; }
  std::string library() const override { return "processes"; }
  bool mayBeCalledBeside() const override { return true; }
  void setWatch(RankWatch) override { abort(1); }

  void waitUntil(const std::function<bool()> &isDone) override {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!isDone())
      if (std::chrono::steady_clock::now() > end)
        throw RankLost("waited too long");
  }
  void lose(const std::string &why) override { throw RankLost(why); }

  void broadcast(std::span<char> bytes) override {
    meet([&] { std::memcpy(meeting.bytes, bytes.data(), own == 0 ? bytes.size() : 0); });
    meet([&] { std::memcpy(bytes.data(), meeting.bytes, bytes.size()); });
  }
  std::vector<uint64_t> gather(uint64_t number) override {
    meet([&] { meeting.numbers[own] = number; });
    std::vector<uint64_t> all(meeting.numbers, meeting.numbers + count);
    meet([] {});
    return all;
  }
  void sum(float *, int64_t, char *) override { abort(1); }
  void scatter(const float *, int64_t, int64_t, int64_t, float *) override { abort(1); }
  void join(const float *, int64_t, int64_t, int64_t, float *) override { abort(1); }
  void gather(const float *, int64_t, float *) override { abort(1); }
  [[noreturn]] void abort(int) override { std::abort(); }

  std::chrono::milliseconds patience = std::chrono::seconds(60);

private:
  template <typename Do> void meet(const Do &act) {
    act();
    const int phase = meeting.phase;
    if (++meeting.arrived == count) {
      meeting.arrived = 0;
      ++meeting.phase;
    }
    while (meeting.phase == phase)
      std::this_thread::yield();
  }

  Meeting &meeting;
  const int64_t count, own;
};

/// A rank with its GPU and its arena.
class Rank {
public:
  Rank(Meeting &meeting, int64_t size, int64_t rank, int gpu)
      : ranks(meeting, size, rank), gpu(gpu) {
    driver.require(driver.primaryCtxRetain(&context, gpu), "context");
    driver.require(driver.ctxSetCurrent(context), "context");
    driver.require(driver.streamCreate(&stream, kStreamNonBlocking), "stream");
    driver.require(driver.memAlloc(&arena, kArena), "arena");
  }
  ~Rank() {
    communicator.reset();
    driver.memFree(arena);
    driver.streamDestroy(stream);
    driver.primaryCtxRelease(gpu);
  }

  void connect() {
    communicator.emplace(driver, ranks, [this] { destroyGraphs(); });
    communicator->registerArena(arena, kArena);
  }

  void destroyGraphs() {
    if (executable)
      driver.graphExecDestroy(std::exchange(executable, nullptr));
  }

  /// Launches what `submits` puts on the stream, as a graph.
  void launchCaptured(const std::function<void()> &submits) {
    driver.require(driver.streamBeginCapture(stream, kCaptureThreadLocal), "capture");
    submits();
    Graph graph = nullptr;
    driver.require(driver.streamEndCapture(stream, &graph), "capture");
    driver.require(driver.graphInstantiateWithFlags(&executable, graph, 0), "graph");
    driver.graphDestroy(graph);
    driver.require(driver.graphLaunch(executable, stream), "launch");
  }

  Command command(CommandOp op, std::vector<Operand> operands) const {
    Command command;
    command.op = op;
    command.name = "/fc";
    command.operands = std::move(operands);
    command.ints["ranks"] = {ranks.size()};
    return command;
  }

  void submit(const Command &command) {
    calls.push_back(communicator->bind(command, arena));
    calls.back()->submit(stream);
  }
  void wait() { communicator->wait(stream, nullptr, "waiting"); }

  void upload(Bytes offset, const std::vector<float> &values) {
    driver.require(driver.memcpyHtoDAsync(arena + static_cast<Address>(offset), values.data(),
                                          values.size() * sizeof(float), stream),
                   "upload");
  }
  std::vector<float> download(Bytes offset, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    driver.require(driver.memcpyDtoHAsync(values.data(), arena + static_cast<Address>(offset),
                                          values.size() * sizeof(float), stream),
                   "download");
    wait();
    return values;
  }

  const Driver &driver = openDriver();
  TestRanks ranks;
  int gpu;
  Context context = nullptr;
  Stream stream = nullptr;
  Address arena = 0;
  std::optional<Communicator> communicator;
  std::vector<std::unique_ptr<LibraryCall>> calls;
  GraphExec executable = nullptr;
};

using Body = std::function<void(Rank &)>;

/// What each of `size` processes has to say: nothing, its error, or that it was killed.
std::vector<std::string> sayings(
    int64_t size, const Body &body, const std::function<int(int64_t)> &gpuOf = [](int64_t rank) {
      return static_cast<int>(rank);
    }) {
  setenv("STANDIN_DEVICES", "4", 1);
  void *memory =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto *meeting = new (memory) Meeting();
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      std::string said;
      try {
        Rank own(*meeting, size, rank, gpuOf(rank));
        body(own);
      } catch (const RankLost &lost) {
        said = concat("lost: ", lost.what());
      } catch (const std::exception &error) {
        said = error.what();
      }
      std::strncpy(meeting->said[rank], said.c_str(), kText - 1);
      _exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::string> all;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    all.emplace_back(WIFEXITED(status) ? meeting->said[rank] : "killed");
  }
  munmap(memory, sizeof(Meeting));
  return all;
}

Operand vector(Bytes offset, int64_t count) { return {offset, DType::F32, {count}, {}}; }

/// Values whose sums depend on their order.
float valueOf(int64_t rank, int64_t i) {
  return static_cast<float>(rank == 1 ? 1e6 : 1) / static_cast<float>(3 + i % 97 + 7 * rank) *
         (i % 2 == 0 ? 1.0f : -1.0f);
}
std::vector<float> valuesOf(int64_t rank, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(valueOf(rank, i));
  return values;
}
float sumOf(int64_t ranks, int64_t i) {
  float sum = 0;
  for (int64_t rank = 0; rank < ranks; ++rank)
    sum += valueOf(rank, i);
  return sum;
}

void expect(bool holds, const std::string &what) {
  if (!holds)
    throw Error::badInput(what);
}

constexpr Bytes kWhole = 0, kOut = 400'000, kShard = 800'000;

/// All four commands, captured and launched twice, of counts that ranks divide and of others; more than the ranks show each other at once.
void runAll(Rank &rank, int64_t count) {
  const int64_t size = rank.ranks.size(), own = rank.ranks.rank(),
                shard = shardElements(count, size);
  rank.connect();
  expect(rank.communicator->note().empty(), rank.communicator->note());
  const Driver &driver = rank.driver;
  for (bool isInPlace : {false, true}) {
    driver.require(driver.streamBeginCapture(rank.stream, kCaptureThreadLocal), "capture");
    const Bytes sums = isInPlace ? kWhole : kOut;
    rank.submit(
        rank.command(CommandOp::ReduceScatter, {vector(kWhole, count), vector(kShard, shard)}));
    rank.submit(rank.command(CommandOp::AllReduce, {vector(kWhole, count), vector(sums, count)}));
    Graph graph = nullptr;
    GraphExec executable = nullptr;
    driver.require(driver.streamEndCapture(rank.stream, &graph), "capture");
    driver.require(driver.graphInstantiateWithFlags(&executable, graph, 0), "graph");
    for (int run = 0; run < 2; ++run) {
      rank.upload(kWhole, valuesOf(own, count));
      driver.require(driver.graphLaunch(executable, rank.stream), "launch");
      const std::vector<float> all = rank.download(sums, count),
                               part = rank.download(kShard, shard);
      const ShardRange range = shardRange(count, size, own);
      for (int64_t i = 0; i < count; ++i)
        expect(all[static_cast<size_t>(i)] == sumOf(size, i), concat("sum ", i, " of ", count));
      for (int64_t i = 0; i < shard; ++i)
        expect(part[static_cast<size_t>(i)] ==
                   (i < range.size() ? sumOf(size, range.begin + i) : 0),
               concat("shard ", i, " of ", count));
    }
    driver.graphExecDestroy(executable), driver.graphDestroy(graph);
  }
  // Of a value that all have, each its shard, and together again.
  rank.upload(kWhole, valuesOf(0, count));
  rank.submit(rank.command(CommandOp::Shard, {vector(kWhole, count), vector(kShard, shard)}));
  driver.require(driver.memsetD8Async(rank.arena + kWhole, 0xff,
                                      static_cast<size_t>(count) * sizeof(float), rank.stream),
                 "fill");
  rank.submit(rank.command(CommandOp::AllGather,
                           {vector(kShard, shard), vector(kWhole, count), vector(kWhole, count)}));
  expect(rank.download(kWhole, count) == valuesOf(0, count), concat("gathered ", count));
}

TEST(CollectivesTest, AddUpInTheOrderOfTheRanks) {
  for (int64_t size : {2, 3})
    for (int64_t count : {1, 6, 7, 90'001})
      EXPECT_THAT(sayings(size, [&](Rank &rank) { runAll(rank, count); }), Each(IsEmpty()))
          << size << " ranks, " << count;
}

/// A launch comes back before anything has run: what is read without a wait is what was there.
TEST(CollectivesTest, RunWhenTheirStreamDoes) {
  EXPECT_THAT(sayings(2,
                      [](Rank &rank) {
                        rank.connect();
                        rank.upload(kWhole, valuesOf(rank.ranks.rank(), 8));
                        rank.wait();
                        rank.submit(rank.command(CommandOp::AllReduce,
                                                 {vector(kWhole, 8), vector(kWhole, 8)}));
                        expect(rank.driver.streamQuery(rank.stream) == kNotReady,
                               "the sum is there at once");
                        rank.ranks.gather(0);
                        expect(rank.download(kWhole, 8)[3] == sumOf(2, 3), "no sum");
                      }),
              Each(IsEmpty()));
}

/// What would hang or give other bits on GPUs is an error of the stand-in, and of the ranks that wait.
TEST(CollectivesTest, RanksThatDoOtherThings) {
  auto rankDoes = [](const std::function<Command(Rank &, bool isSecond)> &commandOf) {
    return sayings(2, [&](Rank &rank) {
      rank.connect();
      rank.submit(commandOf(rank, rank.ranks.rank() == 1));
      rank.wait();
    });
  };
  const auto isTold = AllOf(HasSubstr("lost: NCCL reports: "), HasSubstr("invalid usage"));
  EXPECT_THAT(rankDoes([](Rank &rank, bool isSecond) {
                const Operand value = vector(kWhole, isSecond ? 7 : 8);
                return rank.command(CommandOp::AllReduce, {value, value});
              }),
              Each(AllOf(isTold, HasSubstr("runs a all-reduce of "))));
  EXPECT_THAT(
      rankDoes([](Rank &rank, bool isSecond) {
        return isSecond
                   ? rank.command(CommandOp::AllReduce, {vector(kWhole, 8), vector(kWhole, 8)})
                   : rank.command(CommandOp::ReduceScatter, {vector(kWhole, 8), vector(kShard, 4)});
      }),
      Each(isTold));
}

TEST(CollectivesTest, ARankThatEnds) {
  const std::vector<std::string> said = sayings(3, [](Rank &rank) {
    rank.connect();
    if (rank.ranks.rank() == 1)
      raise(SIGKILL);
    rank.submit(rank.command(CommandOp::AllReduce, {vector(kWhole, 8), vector(kWhole, 8)}));
    rank.wait();
  });
  EXPECT_EQ(said[1], "killed");
  for (size_t other : {0, 2})
    EXPECT_THAT(said[other], AllOf(HasSubstr("lost: NCCL reports: remote process exited"),
                                   HasSubstr("rank 1 has ended")));
}

/// The one that waits does so no longer than it may, ends what runs, and says at once what was lost whenever it is asked again.
TEST(CollectivesTest, ARankThatDoesNotCome) {
  const std::vector<std::string> said = sayings(2, [](Rank &rank) {
    rank.connect();
    if (rank.ranks.rank() == 0) {
      rank.ranks.patience = std::chrono::milliseconds(300);
      rank.submit(rank.command(CommandOp::AllReduce, {vector(kWhole, 8), vector(kWhole, 8)}));
      try {
        rank.wait();
      } catch (const RankLost &lost) {
        expect(lost.what() == std::string("waited too long"), lost.what());
        rank.driver.require(rank.driver.streamSynchronize(rank.stream), "the stream ends");
        rank.ranks.gather(0);
        rank.wait();
      }
      return;
    }
    rank.ranks.gather(0);
  });
  EXPECT_EQ(said[0], "lost: NCCL has ended");
  EXPECT_EQ(said[1], "");
}

/// The same where a graph has the call: NCCL would wait for it without end, unless it is destroyed while it runs.
TEST(CollectivesTest, GraphsEndBeforeTheirCommunicator) {
  for (bool isForgotten : {false, true}) {
    const std::vector<std::string> said = sayings(2, [&](Rank &rank) {
      rank.connect();
      if (rank.ranks.rank() == 0) {
        rank.ranks.patience = std::chrono::milliseconds(300);
        rank.launchCaptured([&] {
          rank.submit(rank.command(CommandOp::AllReduce, {vector(kWhole, 8), vector(kWhole, 8)}));
        });
        if (isForgotten)
          rank.executable = nullptr;
        try {
          rank.wait();
        } catch (const RankLost &) {
          rank.ranks.gather(0);
          throw;
        }
      }
      if (isForgotten)
        raise(SIGKILL); // nobody comes to the meeting
      rank.ranks.gather(0);
    });
    EXPECT_EQ(said[0], isForgotten ? "killed" : "lost: waited too long");
  }
}

TEST(CollectivesTest, FailuresOfNccl) {
  auto saidWith = [](const char *failure, const Body &body) {
    setenv("STANDIN_NCCL_FAIL", failure, 1);
    const std::vector<std::string> said = sayings(2, body);
    unsetenv("STANDIN_NCCL_FAIL");
    return said;
  };
  EXPECT_THAT(saidWith("ncclCommInitRank:1:2", [](Rank &rank) { rank.connect(); }),
              Each(AllOf(HasSubstr("connecting 2 ranks failed in NCCL: unhandled system error"))));
  EXPECT_THAT(saidWith("ncclCommRegister:1:1",
                       [](Rank &rank) {
                         rank.connect();
                         expect(false, rank.communicator->note());
                       }),
              Each(HasSubstr("NCCL does not register the arena, and sums over ranks pass its own "
                             "buffers: unhandled cuda error")));
  EXPECT_THAT(saidWith("run:2:6",
                       [](Rank &rank) {
                         rank.connect();
                         for (int i = 0; i < 2; ++i)
                           rank.submit(rank.command(CommandOp::AllReduce,
                                                    {vector(kWhole, 8), vector(kWhole, 8)}));
                         rank.wait();
                       }),
              Each(HasSubstr("lost: NCCL reports: remote process exited")));
  setenv("STANDIN_NCCL_VERSION", "21003", 1);
  EXPECT_THAT(sayings(2, [](Rank &rank) { rank.connect(); }),
              Each(HasSubstr("NCCL is too old: it is 2.10.3, and sums over GPUs take 2.18.0")));
  unsetenv("STANDIN_NCCL_VERSION");
}

TEST(CollectivesTest, GpusThatAreNotApart) {
  EXPECT_THAT(
      sayings(
          2, [](Rank &rank) { rank.connect(); }, [](int64_t) { return 0; }),
      Each(AllOf(HasSubstr("connecting 2 ranks failed"), HasSubstr("Duplicate GPU detected"))));
}

TEST(CollectivesTest, CommandsThatAreNotAsTheyShouldBe) {
  auto refusalOf = [](const std::function<Command(Rank &)> &commandOf) {
    return sayings(2, [&](Rank &rank) {
      rank.connect();
      rank.submit(commandOf(rank));
    });
  };
  EXPECT_THAT(
      refusalOf([](Rank &rank) {
        Command command =
            rank.command(CommandOp::AllReduce, {vector(kWhole, 8), vector(kWhole, 8)});
        command.ints["ranks"] = {4};
        return command;
      }),
      Each(HasSubstr("command 'all_reduce' of node '/fc': is of another number of ranks than 2")));
  EXPECT_THAT(refusalOf([](Rank &rank) {
                return rank.command(CommandOp::ReduceScatter,
                                    {vector(kWhole, 7), vector(kShard, 3)});
              }),
              Each(HasSubstr("expected 4 elements of 7, found 3")));
  // Results that lie on what is read, and are not in its place.
  EXPECT_THAT(
      refusalOf([](Rank &rank) {
        return rank.command(CommandOp::AllReduce, {vector(kWhole, 8), vector(kWhole + 16, 8)});
      }),
      Each(AllOf(HasSubstr("a sum over ranks of node '/fc' failed in NCCL: invalid argument"),
                 HasSubstr("overlap"))));
}

TEST(CollectivesTest, AProcessThatIsAlone) {
  Command command;
  command.op = CommandOp::AllGather;
  command.name = "/fc";
  EXPECT_THROW(
      {
        try {
          bindOfRanks(nullptr, command, 0);
        } catch (const Error &error) {
          EXPECT_THAT(
              error.what(),
              HasSubstr(
                  "'all_gather' of node '/fc': is of several ranks, and this process is alone"));
          throw;
        }
      },
      Error);
}

} // namespace
} // namespace stow::cuda
