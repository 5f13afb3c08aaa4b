#include "runtime/base/Text.h"

#include <gtest/gtest.h>

namespace stow {
namespace {

TEST(Text, ShapesAndLists) {
  EXPECT_EQ(shapeText({8, 3, 224, 224}), "[8,3,224,224]");
  EXPECT_EQ(shapeText({}), "[]");
  EXPECT_EQ(joined({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(joined({}), "");
}

// Tests that no name can end its quotes or break its line.
TEST(Text, QuotesWhatWouldBreakOut) {
  EXPECT_EQ(quoted("/layer1/conv"), "\"/layer1/conv\"");
  EXPECT_EQ(quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(quoted("a\nb\x1b[31m\x7f"), R"("a\x0ab\x1b[31m\x7f")");
  EXPECT_EQ(quoted("Gewicht \xc3\xa4"), "\"Gewicht \xc3\xa4\"");
}

TEST(Text, Percent) {
  EXPECT_EQ(percent(1, 4), 25);
  EXPECT_EQ(percent(1, 0), 0);
}

} // namespace
} // namespace stow
