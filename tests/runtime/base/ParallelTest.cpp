// The thread pool: how tasks are split, nesting, and that it allocates nothing.
#include "runtime/base/Parallel.h"

#include "tests/runtime/base/CountAllocations.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

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

TEST(ParallelFor, RunsOnSeveralThreads) {
  std::vector<std::thread::id> ids(3);
  parallelFor(3, 3, [&](int64_t begin, int64_t) { ids[begin] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_NE(ids[1], ids[2]);
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
