#include "runtime/base/Bytes.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

using testing::HasSubstr;

std::string errorOf(const std::string &text) {
  try {
    parseByteBudget(text);
  } catch (const Error &error) {
    return error.what();
  }
  return "no error";
}

TEST(BytesTest, UnitsWhateverTheirCapitals) {
  for (const char *text : {"4GiB", "4gib", "4 GIB", "4Gi", "4294967296", "4294967296B"})
    EXPECT_EQ(parseBytes(text), int64_t{4} << 30) << text;
  for (const char *text : {"4GB", "4gb", "4000MB", "4000000 kB"})
    EXPECT_EQ(parseBytes(text), 4'000'000'000) << text;
  EXPECT_EQ(parseByteBudget("70%").peakPercent, 70);
}

// Tests that what may be either of two units is refused with both.
TEST(BytesTest, AUnitCutShortIsAskedFor) {
  for (const char *text : {"4G", "4g", "4Gb"})
    EXPECT_THAT(errorOf(text),
                HasSubstr("; did you mean 4GiB (4294967296 bytes) or 4GB (4000000000 bytes)?"))
        << text;
  EXPECT_THAT(errorOf("1.5m"),
              HasSubstr("did you mean 1.5MiB (1572864 bytes) or 1.5MB (1500000 bytes)?"));
  EXPECT_THAT(errorOf("4x"), HasSubstr("cannot read \"4x\" as a byte count; write for example"));
  EXPECT_THAT(errorOf("all"), HasSubstr("cannot read"));
}

} // namespace
} // namespace stow
