#include "runtime/base/CommandLine.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

using testing::HasSubstr;

class CommandLineTest : public testing::Test {
protected:
  CommandLineTest() {
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

  CommandLine flags;
  std::string epochs, resume;
  bool quiet = false;
};

TEST_F(CommandLineTest, TakesBothForms) {
  flags.parse({"--epochs=3", "--quiet", "--resume"});
  EXPECT_EQ(epochs, "3");
  EXPECT_TRUE(quiet);
  EXPECT_EQ(resume, "(none)");
  flags.parse({"--epochs", "4", "--resume=a=b"});
  EXPECT_EQ(epochs, "4");
  EXPECT_EQ(resume, "a=b");
}

TEST_F(CommandLineTest, Errors) {
  EXPECT_EQ(errorOf({"--epoch=3"}), "unknown flag --epoch; did you mean --epochs?");
  EXPECT_EQ(errorOf({"--zzzzzzz"}), "unknown flag --zzzzzzz; --help lists all");
  EXPECT_EQ(errorOf({"--epochs"}), "--epochs needs a value: --epochs=N");
  EXPECT_EQ(errorOf({"--epochs", "--quiet"}), "--epochs needs a value: --epochs=N");
  EXPECT_EQ(errorOf({"--epochs="}), "--epochs= needs a value: --epochs=N");
  EXPECT_EQ(errorOf({"--quiet=1"}), "--quiet takes no value");
  EXPECT_EQ(errorOf({"data.npz"}), "unexpected word 'data.npz'; options start with --");
  EXPECT_EQ(errorOf({"--"}), "unexpected word '--'; options start with --");
}

TEST_F(CommandLineTest, HelpIsAligned) {
  EXPECT_EQ(flags.help(), "  --epochs=N       passes\n"
                          "  --resume[=FILE]  continue\n"
                          "  --quiet          say less\n");
}

TEST_F(CommandLineTest, HelpStoresNothing) {
  EXPECT_TRUE(flags.parse({"--quiet", "--bogus", "--help"}).wantsHelp);
  EXPECT_TRUE(flags.parse({"-h", "--epochs"}).wantsHelp);
  EXPECT_FALSE(quiet);
  EXPECT_EQ(epochs, "");
}

TEST_F(CommandLineTest, StoresWordsAndRepeatedFlagsInOrder) {
  std::vector<std::string> words, outputs;
  flags.words([&](const std::string &word) { words.push_back(word); });
  flags.value("output,o", "FILE", "write",
              [&](const std::string &text) { outputs.push_back(text); });
  flags.parse({"b", "-o", "x", "a", "--output=y", "-", "--resume", "c"});
  EXPECT_THAT(words, testing::ElementsAre("b", "a", "-", "c"));
  EXPECT_THAT(outputs, testing::ElementsAre("x", "y"));
  EXPECT_EQ(resume, "(none)") << "a value that may be missing is never the next word";
  EXPECT_TRUE(flags.isGiven("--output"));
  EXPECT_FALSE(flags.isGiven("--epochs"));
  EXPECT_THAT(flags.flagNames(),
              testing::ElementsAre("--epochs", "--resume", "--quiet", "--output"));
  EXPECT_EQ(errorOf({"-o"}), "-o needs a value: -o FILE");
}

TEST(CommandLineCommandsTest, EachHasFlagsOfItsOwn) {
  CommandLine program;
  std::string rate, format;
  program.command("train").value("rate", "X", "", [&](const std::string &text) { rate = text; });
  CommandLine &plan = program.command("plan");
  plan.value("format", "F", "", [&](const std::string &text) { format = text; });
  EXPECT_EQ(program.parse({"train", "--rate=2"}).command, "train");
  EXPECT_EQ(rate, "2");
  EXPECT_EQ(program.parse({"plan", "--format", "csv"}).command, "plan");
  EXPECT_EQ(format, "csv");
  EXPECT_EQ(program.parse({}).command, "");
  const CommandLine::Request request = program.parse({"plan", "-h"});
  EXPECT_TRUE(request.wantsHelp);
  EXPECT_EQ(request.command, "plan");
  const auto errorOf = [&](const std::vector<std::string> &arguments) -> std::string {
    try {
      program.parse(arguments);
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(errorOf({"trian"}), "unknown command 'trian'; did you mean train?");
  EXPECT_EQ(errorOf({"sleep"}), "unknown command 'sleep'; known are train, plan");
  EXPECT_EQ(errorOf({"plan", "--rate=2"}), "unknown flag --rate; --help lists all");
  EXPECT_EQ(errorOf({"plan", "train"}), "unexpected word 'train'; options start with --");
  EXPECT_EQ(errorOf({"plan", "--", "x"}), "unexpected word '--'; options start with --");
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

} // namespace
} // namespace stow
