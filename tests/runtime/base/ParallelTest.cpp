// The thread pool: how tasks are split, nesting, and that it allocates nothing.
#include "runtime/base/Parallel.h"

#include "tests/runtime/base/CountAllocations.h"

#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <sched.h>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

// The part of libgomp's interface that oneDNN calls.
extern "C" {
void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
int omp_in_parallel(void);
}

namespace stow {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges rangesOf(int64_t tasks, int64_t threads) {
  std::mutex mutex;
  Ranges ranges;
  parallelFor(tasks, threads, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::ranges::sort(ranges);
  return ranges;
}

// Tests that ranges are contiguous, cover everything once, and differ by at most one task.
TEST(ParallelFor, SplitsEvenly) {
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(rangesOf(10, 4), ElementsAre(Pair(0, 3), Pair(3, 6), Pair(6, 8), Pair(8, 10)));
  EXPECT_THAT(rangesOf(2, 4), ElementsAre(Pair(0, 1), Pair(1, 2)));
  EXPECT_THAT(rangesOf(7, 1), ElementsAre(Pair(0, 7)));
  EXPECT_THAT(rangesOf(1, 8), ElementsAre(Pair(0, 1)));
  EXPECT_THAT(rangesOf(0, 4), ElementsAre());
  EXPECT_THAT(rangesOf(-3, 4), ElementsAre());
}

TEST(ParallelFor, SplitIsRepeatable) {
  Ranges first = rangesOf(1001, 3);
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(rangesOf(1001, 3), first);
}

// Tests that other threads take part: the caller's range ends only when another one has begun.
TEST(ParallelFor, RunsOnSeveralThreads) {
  std::atomic<bool> otherHasBegun = false;
  std::thread::id caller = std::this_thread::get_id();
  parallelFor(3, 3, [&](int64_t, int64_t) {
    if (std::this_thread::get_id() != caller)
      otherHasBegun = true;
    while (!otherHasBegun)
      std::this_thread::yield();
  });
}

std::atomic<bool> isHeld, mayGoOn;

// Tests that no range waits for the thread it was meant for: while that thread is held by a signal
// handler, the caller runs its range.
TEST(ParallelFor, RangesOfLateThreadsAreTaken) {
  isHeld = mayGoOn = false;
  auto previous = std::signal(SIGUSR1, [](int) {
    isHeld = true;
    while (!mayGoOn)
      usleep(1000);
  });
  std::atomic<pid_t> other = 0;
  auto remember = [](void *data) {
    if (omp_get_thread_num() == 1)
      *static_cast<std::atomic<pid_t> *>(data) = gettid();
  };
  GOMP_parallel(remember, &other, 2, 0);
  ASSERT_EQ(tgkill(getpid(), other, SIGUSR1), 0);
  while (!isHeld)
    std::this_thread::yield();
  EXPECT_EQ(rangesOf(10, 2), (Ranges{{0, 5}, {5, 10}}));
  mayGoOn = true;
  GOMP_parallel(remember, &other, 2, 0);
  std::signal(SIGUSR1, previous);
}

// Tests what oneDNN relies on: a team of exactly the size asked for, each member on a thread of its
// own, and barriers that hold all of them.
TEST(OpenMp, TeamsAndBarriers) {
  static constexpr int team = 4, rounds = 200;
  struct Shared {
    std::atomic<int> arrived[rounds];
    std::atomic<int> early{0};
    std::thread::id ids[team];
  } shared;
  for (std::atomic<int> &count : shared.arrived)
    count = 0;
  auto member = [](void *data) {
    auto &shared = *static_cast<Shared *>(data);
    EXPECT_EQ(omp_get_num_threads(), team);
    EXPECT_TRUE(omp_in_parallel());
    shared.ids[omp_get_thread_num()] = std::this_thread::get_id();
    for (std::atomic<int> &count : shared.arrived) {
      ++count;
      GOMP_barrier();
      shared.early += count != team;
    }
  };
  GOMP_parallel(member, &shared, team, 0);
  EXPECT_EQ(shared.early, 0);
  EXPECT_EQ(shared.ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(std::begin(shared.ids), std::end(shared.ids)).size(), 4u);
  EXPECT_FALSE(omp_in_parallel());
  EXPECT_EQ(omp_get_num_threads(), 1);
}

TEST(OpenMp, TeamSizeDefaultsToTheLimit) {
  ThreadScope scope(3);
  EXPECT_EQ(omp_get_max_threads(), 3);
  std::atomic<int> members = 0;
  auto count = [](void *data) { ++*static_cast<std::atomic<int> *>(data); };
  GOMP_parallel(count, &members, 0, 0);
  EXPECT_EQ(members, 3);
}

// Tests that several threads may open regions at once.
TEST(ParallelFor, CallersTakeTurns) {
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        parallelFor(10, 3, [&](int64_t begin, int64_t end) { sum += end - begin; });
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(sum, 4 * 200 * 10);
}

// Tests that a forked process, which has none of its parent's threads, gets threads of its own.
TEST(ParallelFor, WorksAfterFork) {
  std::atomic<int64_t> sum = 0;
  auto body = [&](int64_t begin, int64_t end) { sum += end - begin; };
  parallelFor(10, 3, body);
  pid_t child = fork();
  if (child == 0) {
    auto count = [](void *data) { ++*static_cast<std::atomic<int64_t> *>(data); };
    GOMP_parallel(count, &sum, 3, 0);
    _exit(sum == 13 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// Processor seconds of all threads of this process.
double processorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Tests that threads which share one processor let each other run: members that wait for each other
// 2,000 times take milliseconds of processor time. A pool whose threads spin until their slice is
// over takes a slice, about 3 ms, for every wait.
TEST(OpenMp, WaitingLeavesTheProcessor) {
  auto region = [](void *) { GOMP_barrier(); };
  GOMP_parallel(region, nullptr, 2, 0);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  auto setAll = [](const cpu_set_t &set) {
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task"))
      sched_setaffinity(std::stoi(task.path().filename()), sizeof(set), &set);
  };
  setAll(one);
  double start = processorSeconds();
  for (int i = 0; i < 1000; ++i)
    GOMP_parallel(region, nullptr, 2, 0);
  double used = processorSeconds() - start;
  setAll(before);
  EXPECT_LT(used, 1.0);
}

// Tests that a region inside a region still does all of its tasks.
TEST(ParallelFor, Nests) {
  std::atomic<int64_t> sum{0};
  parallelFor(4, 2, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      parallelFor(100, 2, [&](int64_t b, int64_t e) { sum += e - b; });
  });
  EXPECT_EQ(sum, 400);
}

TEST(ThreadScope, RestoresTheCount) {
  setThreads(3);
  {
    ThreadScope scope(5);
    EXPECT_EQ(currentThreads(), 5);
  }
  EXPECT_EQ(currentThreads(), 3);
  setThreads(0);
  EXPECT_EQ(currentThreads(), 1);
}

TEST(ParallelFor, AllocatesNothing) {
  if (!test::allocationsAreCounted())
    GTEST_SKIP() << "the allocator is the sanitizer's";
  std::vector<int64_t> seen(64);
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      ++seen[i];
  };
  parallelFor(64, 2, body); // starts the pool
  int64_t before = test::allocationsSoFar().calls;
  for (int i = 0; i < 100; ++i)
    parallelFor(64, 2, body);
  EXPECT_EQ(test::allocationsSoFar().calls - before, 0);
  EXPECT_THAT(seen, testing::Each(101));
}

} // namespace
} // namespace stow
