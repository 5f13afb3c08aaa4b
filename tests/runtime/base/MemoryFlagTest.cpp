// Tests what a flag of memory takes, and what it says to a number without a unit.
#include "runtime/base/MemoryFlag.h"

#include "runtime/base/Error.h"

#include <gtest/gtest.h>

namespace stow {
namespace {

std::string refusalOf(std::string_view text) {
  try {
    parseMemory("card", text);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(MemoryFlagTest, SmallNumbersWithoutAUnitAreRefused) {
  EXPECT_EQ(refusalOf("24"), "--card=24 is 24 bytes; did you mean 24GiB or 24MiB?");
  EXPECT_EQ(refusalOf("0.7"), "--card=0.7 is 0 bytes; did you mean 70%, 0.7GiB or 0.7MiB?");
  EXPECT_EQ(refusalOf("24B"), "");
  EXPECT_EQ(refusalOf("0"), "");
  EXPECT_EQ(refusalOf("200"), "");
}

TEST(MemoryFlagTest, AShareIsForFlagsThatTakeOne) {
  EXPECT_EQ(parseMemory("memory-budget", "70%").peakPercent, 70);
  EXPECT_THROW(parseMemoryBytes("card", "70%"), Error);
  EXPECT_EQ(parseMemoryBytes("card", "24GiB"), int64_t{24} << 30);
}

} // namespace
} // namespace stow
