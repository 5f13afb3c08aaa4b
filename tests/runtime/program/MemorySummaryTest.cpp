// The line that closes a run: what it took beside what was stated.
#include "runtime/program/MemorySummary.h"

#include <gmock/gmock.h>

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
