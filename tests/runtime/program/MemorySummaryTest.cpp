// The line that closes a run: what it took beside what was stated.
#include "runtime/program/MemorySummary.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stow {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(MemorySummary, SaysWhatWasStated) {
  Plan plan;
  plan.arenaBytes = 4096;
  plan.outsideArenaBytes = Bytes{16} << 20;
  std::string text = memorySummary(plan, {0, 0, Bytes{16} << 20});
  EXPECT_THAT(text, StartsWith("memory: process peak "));
  EXPECT_THAT(text, HasSubstr(", arena 4.00 KiB (4096 bytes), the rest "));
  EXPECT_THAT(text, EndsWith(" (stated: 16.00 MiB and the data file)"));
}

// Tests that the parts add up to the driver's figure, and that a stated part that is too large shows.
TEST(MemorySummary, AddsUpToWhatTheDriverSays) {
  Plan plan;
  plan.arenaBytes = 1000;
  DriverMemory memory = {"a GPU, driver 13.0", 1700, 4096, 500, 150, 50};
  EXPECT_EQ(
      driverMemorySummary(plan, memory),
      "memory of a GPU, driver 13.0: 1.66 KiB (1700 bytes) of 4.00 KiB in use by all "
      "processes = arena 1000 B (1000 bytes) + fixed part not measured + unaccounted 700 B "
      "(700 bytes); context 500 B (500 bytes), code and libraries 150 B (150 bytes), "
      "graphs 50 B (50 bytes), together 700 B (700 bytes) (the plan states nothing; --outside=700 "
      "when compiling states it, where no other process is on the device)");
  plan.outsideArenaBytes = 900;
  EXPECT_THAT(driverMemorySummary(plan, memory),
              HasSubstr("+ fixed part 900 B (900 bytes) + unaccounted -200 B (200 bytes);"));
  EXPECT_THAT(driverMemorySummary(plan, memory),
              EndsWith("together 700 B (700 bytes) (within what the plan states)"));
  plan.outsideArenaBytes = 699;
  EXPECT_THAT(driverMemorySummary(plan, memory),
              HasSubstr("together 700 B (700 bytes) (more than the plan states; --outside=700 "));
}

/// So many bytes of memory, every page of them touched.
class Touched {
public:
  explicit Touched(Bytes bytes) : memory(static_cast<char *>(std::malloc(bytes))) {
    for (Bytes i = 0; i < bytes; i += 4096)
      memory[i] = 1;
  }
  ~Touched() { std::free(const_cast<char *>(memory)); }

private:
  volatile char *memory;
};

// Tests that the peak is this program's own: getrusage keeps that of the process that ran exec.
TEST(MemorySummary, CountsNoMemoryOfTheParent) {
  constexpr Bytes parents = Bytes{256} << 20;
  if (std::getenv("STOWAGE_TEST_CHILD")) {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    ASSERT_GE(Bytes{usage.ru_maxrss} * 1024, parents) << "the parent's memory is to be seen";
    ASSERT_TRUE(peakResidentBytes());
    EXPECT_LT(*peakResidentBytes(), parents / 2);
    const Touched own(parents);
    EXPECT_GE(*peakResidentBytes(), parents);
    return;
  }
  const Touched held(parents); // while it forks and the child runs exec
  const pid_t child = fork();
  if (child == 0) {
    setenv("STOWAGE_TEST_CHILD", "1", 1);
    execl("/proc/self/exe", "MemorySummaryTest", "--gtest_filter=*CountsNoMemoryOfTheParent",
          nullptr);
    _exit(127);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Tests a plan that was made on another machine than this, whose library takes more from the heap.
TEST(MemorySummary, SaysWhereTheDeviceTakesMore) {
  Plan plan;
  plan.arenaBytes = 4096;
  plan.outsideArenaBytes = Bytes{16} << 20;
  EXPECT_THAT(memorySummary(plan, {Bytes{24} << 20, 1024, Bytes{16} << 20}),
              EndsWith(" (stated: 16.00 MiB, on this machine up to 40.00 MiB, and the data file)"));
}

} // namespace
} // namespace stow
