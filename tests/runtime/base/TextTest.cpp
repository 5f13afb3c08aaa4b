#include "runtime/base/Text.h"

#include "runtime/base/Concat.h"

#include <gtest/gtest.h>

#include <limits>

namespace stow {
namespace {

TEST(Text, ShapesAndLists) {
  EXPECT_EQ(shapeText({8, 3, 224, 224}), "[8,3,224,224]");
  EXPECT_EQ(shapeText({}), "[]");
  EXPECT_EQ(joined({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(joined({}), "");
}

// Tests that a character stays one, and that every width and sign of integers reads as decimal digits.
TEST(Text, Pieces) {
  const std::string_view view = "view";
  EXPECT_EQ(concat("a ", std::string("b"), ' ', view, ": ", -1, ", ", size_t(-1)),
            "a b view: -1, 18446744073709551615");
  EXPECT_EQ(concat(static_cast<int8_t>(-65), '/', static_cast<uint8_t>(65)), "-65/65");
  EXPECT_EQ(concat(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  std::string text = "kept";
  append(text, ", ", 2);
  EXPECT_EQ(text, "kept, 2");
  EXPECT_EQ(joined(std::vector<int64_t>{8, 3, 224}, "x"), "8x3x224");
  EXPECT_EQ(joined(std::vector<std::string>{"", "b"}, ", "), ", b");
  EXPECT_EQ(joined(std::vector<int>{}, ", "), "");
}

// Tests that no name can end its quotes or break its line.
TEST(Text, QuotesWhatWouldBreakOut) {
  EXPECT_EQ(quotedText("/layer1/conv"), "\"/layer1/conv\"");
  EXPECT_EQ(quotedText("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(quotedText("a\nb\x1b[31m\x7f"), R"("a\x0ab\x1b[31m\x7f")");
  EXPECT_EQ(quotedText("Gewicht \xc3\xa4"), "\"Gewicht \xc3\xa4\"");
}

TEST(Text, Percent) {
  EXPECT_EQ(percent(1, 4), 25);
  EXPECT_EQ(percent(1, 0), 0);
}

} // namespace
} // namespace stow
