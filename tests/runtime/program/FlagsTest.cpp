#include "runtime/program/Flags.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

using testing::HasSubstr;

class FlagsTest : public testing::Test {
protected:
  FlagsTest() {
    flags.value("epochs", "N", "passes", [&](const std::string &text) { epochs = text; });
    flags.optionalValue("resume", "FILE", "continue",
                        [&](const std::string &text) { resume = text.empty() ? "(none)" : text; });
    flags.flag("quiet", "say less", [&] { quiet = true; });
  }

  std::string errorOf(const std::vector<std::string> &arguments) {
    try {
      flags.parse(arguments);
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  }

  Flags flags;
  std::string epochs, resume;
  bool quiet = false;
};

TEST_F(FlagsTest, TakesBothForms) {
  flags.parse({"--epochs=3", "--quiet", "--resume"});
  EXPECT_EQ(epochs, "3");
  EXPECT_TRUE(quiet);
  EXPECT_EQ(resume, "(none)");
  flags.parse({"--epochs", "4", "--resume=a=b"});
  EXPECT_EQ(epochs, "4");
  EXPECT_EQ(resume, "a=b");
}

TEST_F(FlagsTest, Errors) {
  EXPECT_EQ(errorOf({"--epoch=3"}), "unknown flag --epoch; did you mean --epochs?");
  EXPECT_EQ(errorOf({"--zzzzzzz"}), "unknown flag --zzzzzzz; --help lists all");
  EXPECT_EQ(errorOf({"--epochs"}), "--epochs needs a value: --epochs=N");
  EXPECT_EQ(errorOf({"--epochs", "--quiet"}), "--epochs needs a value: --epochs=N");
  EXPECT_EQ(errorOf({"--epochs="}), "--epochs= needs a value: --epochs=N");
  EXPECT_EQ(errorOf({"--quiet=1"}), "--quiet takes no value");
  EXPECT_EQ(errorOf({"data.npz"}), "unexpected word 'data.npz'; options start with --");
  EXPECT_EQ(errorOf({"--"}), "unexpected word '--'; options start with --");
}

TEST_F(FlagsTest, HelpIsAligned) {
  EXPECT_EQ(flags.help(), "  --epochs=N       passes\n"
                          "  --resume[=FILE]  continue\n"
                          "  --quiet          say less\n");
}

TEST(FlagValuesTest, Numbers) {
  EXPECT_EQ(parseCount("n", "12", 1), 12);
  EXPECT_EQ(parseSeed("seed", "18446744073709551615"), ~uint64_t{0});
  EXPECT_EQ(parseReal("lr", "1e-3"), 1e-3);
  for (const char *text : {"", "x", "1.5", "1x", "0", "-3", "99999999999999999999"})
    EXPECT_THROW(parseCount("n", text, 1), Error) << text;
  for (const char *text : {"-1e-9", "-inf", "nan", "x"})
    EXPECT_THROW(parseRate("lr", text), Error) << text;
  EXPECT_EQ(parseRate("lr", "0"), 0);
  EXPECT_EQ(parseCount("n", "7", 1, 7), 7);
  EXPECT_THROW(parseCount("n", "8", 1, 7), Error);
  for (const char *text : {"-1", "1e3", " 1"})
    EXPECT_THROW(parseSeed("n", text), Error) << text;
  for (const char *text : {"nan", "inf", "1e999", "0.1.2", ""})
    EXPECT_THROW(parseReal("lr", text), Error) << text;
  try {
    parseCount("epochs", "two", 1);
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "--epochs: expected a whole number of at least 1, found 'two'");
  }
}

TEST(FlagValuesTest, Nearest) {
  EXPECT_EQ(nearest("weigths", {"data", "weights"}), "weights");
  EXPECT_EQ(nearest("q", {"data", "weights"}), "");
}

} // namespace
} // namespace stow
