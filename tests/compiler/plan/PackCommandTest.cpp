// `stowage pack` end to end: exit codes, what it writes, and what it says.
#include "compiler/plan/PackCommand.h"
#include "compiler/plan/StandAlone.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

namespace stow {
namespace {

using testing::HasSubstr;

struct Outcome {
  int code;
  std::string out, err;
};

class PackCommandTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::path(testing::TempDir()) /
             testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string file(const std::string &name) const { return (folder / name).string(); }

  std::string write(const std::string &name, const std::string &text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }

  static Outcome run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "pack");
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = runAlone(static_cast<int>(argv.size()), argv.data(), packCommand);
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
  }

  std::filesystem::path folder;
};

constexpr const char *small = "id,lower,upper,size\na,0,5,2\nb,1,4,2\nc,4,7,4\nd,5,8,2\n";

TEST_F(PackCommandTest, MinimizesAndWritesOffsets) {
  const Outcome outcome = run({write("x.csv", small), "-o", file("out.csv")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("status:      optimal"));
  EXPECT_THAT(outcome.out, HasSubstr("(6 bytes)"));
  std::ostringstream text;
  text << std::ifstream(file("out.csv")).rdbuf();
  // The column `offset` reads back as fixed offsets, which verify as a packing.
  const pack::Problem packed = pack::parse(text.str(), "out.csv");
  pack::Solution solution;
  for (const pack::Buffer &buffer : packed.buffers)
    solution.offsets.push_back(*buffer.fixedOffset);
  solution.height = 6;
  EXPECT_TRUE(pack::verify(packed, solution).empty());
}

TEST_F(PackCommandTest, DecidesACapacity) {
  const std::string input = write("x.csv", small);
  EXPECT_EQ(run({input, "--capacity=6"}).code, 0);
  EXPECT_EQ(run({input, "--capacity=7", "--minimize"}).code, 0);
  const Outcome outcome = run({input, "--capacity=5", "-o", file("out.csv")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("smallest conflict: 2 buffers do not fit together"));
  EXPECT_THAT(outcome.out, HasSubstr("  c [4, 7) 4 bytes"));
  EXPECT_THAT(outcome.err, HasSubstr("the buffers do not fit"));
  EXPECT_FALSE(std::filesystem::exists(file("out.csv")));
}

TEST_F(PackCommandTest, SaysWhenFixedOffsetsCollide) {
  const Outcome outcome =
      run({write("x.csv", "id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,4,2\nc,0,9,1,\n")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("a [0, 2) 4 bytes fixed at 0"));
}

TEST_F(PackCommandTest, RefusesBadInput) {
  const std::string input = write("x.csv", small);
  const struct {
    std::vector<std::string> arguments;
    const char *message;
  } cases[] = {
      {{}, "no input file"},
      {{input, "--colour"}, "unknown flag --colour"},
      {{input, input}, "two input files"},
      {{input, "--timeout=soon"}, "--timeout: expected a number, found 'soon'"},
      {{input, "--timeout=-1"}, "--timeout: expected a number of at least 0, found '-1'"},
      {{input, "--work=1e9"}, "--work: expected a whole number of at least 0, found '1e9'"},
      {{input, "--capacity=much"}, "much"},
      {{file("none.csv")}, "cannot open"},
      {{input, "-o", file("no/such/folder.csv")}, "cannot write"},
      {{input, "-o"}, "-o needs a value: -o FILE"},
      {{input, "--capacity=70%"}, "\"70%\" is a share; expected bytes"},
      {{folder.string()}, "it is a folder"},
      {{write("y.csv", "id,lower\n")}, "y.csv:1:1: column 'upper' is missing"},
  };
  for (const auto &[arguments, message] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

TEST_F(PackCommandTest, WritesToStandardOutput) {
  const Outcome outcome = run({write("x.csv", "id,lower,upper,size\na,0,5,2\n"), "-o", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "id,lower,upper,size,offset\na,0,5,2,0\n");
}

TEST_F(PackCommandTest, PrintsItsUsage) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("usage: pack FILE [flags]\n\n  --capacity=BYTES"));
}

TEST_F(PackCommandTest, WorkBudgetsGiveTheSameBytes) {
  const std::string input = write("x.csv", small);
  run({input, "--work=1000", "-o", file("1.csv")});
  run({input, "--work=1000", "-o", file("2.csv")});
  std::ostringstream one, two;
  one << std::ifstream(file("1.csv")).rdbuf();
  two << std::ifstream(file("2.csv")).rdbuf();
  EXPECT_EQ(one.str(), two.str());
  EXPECT_FALSE(one.str().empty());
}

} // namespace
} // namespace stow
