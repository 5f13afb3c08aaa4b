#include "compiler/plan/RematCommand.h"
#include "compiler/plan/StandAlone.h"

#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Json.h"
#include "ir/plan/schedule/Verify.h"
#include "ir/plan/schedule/VerifyLanes.h"
#include "passes/solvers/schedule/proofs/PhaseProgram.h"

#include <absl/strings/str_cat.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

namespace stow {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int code = 0;
  std::string out, err;
};

Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "remat");
  std::vector<char *> argv;
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = runAlone(static_cast<int>(argv.size()), argv.data(), rematCommand);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

std::string write(const std::string &name, const std::string &text) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

std::string read(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string networkFile() {
  return write("unet.json",
               schedule::print(schedule::trainingStep(schedule::convolutionalForward("unet", 2))));
}

// Tests that the schedule written is the one reported: legal, within the budget.
TEST(RematCommandTest, PlansAndWritesASchedule) {
  const std::string input = networkFile(), output = ::testing::TempDir() + "/schedule.json";
  Outcome outcome = run({input, "--memory-budget=80%", "--effort=0.1", "-o", output});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("cut bound"));
  EXPECT_THAT(outcome.out, HasSubstr("peak bound"));
  EXPECT_THAT(outcome.out, HasSubstr("status"));
  schedule::Problem problem = schedule::parse(read(input), input);
  schedule::Solution solution = schedule::parseSolution(read(output), problem);
  schedule::Replay replay = schedule::verify(problem, solution);
  EXPECT_EQ(replay.fault, std::nullopt);
  schedule::Replay plain = schedule::verify(problem, schedule::inputOrder(problem));
  EXPECT_LE(replay.peakBytes, (plain.peakBytes * 80 + 99) / 100);
  EXPECT_GT(solution.runs.size(), problem.ops.size());
  EXPECT_EQ(run({input, "--memory-budget=80%", "--effort=0.1", "-o", "-"}).out, read(output));
  // The same bytes again.
  const std::string first = read(output);
  run({input, "--memory-budget=80%", "--effort=0.1", "-o", output});
  EXPECT_EQ(read(output), first);
}

TEST(RematCommandTest, ReportsInfeasibleBudgets) {
  Outcome outcome = run({networkFile(), "--memory-budget=1MiB", "--effort=0"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("infeasible: no schedule has a peak below"));
  EXPECT_THAT(outcome.err, StartsWith("error: no schedule fits the budget"));
}

TEST(RematCommandTest, PrintsJsonAndFrontiers) {
  Outcome json = run({networkFile(), "--memory-budget=90%", "--effort=0", "--format=json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_THAT(json.out, StartsWith("{\"status\": "));
  EXPECT_THAT(json.out, HasSubstr("\"cut_bound\": "));
  Outcome frontier = run({networkFile(), "--frontier", "--effort=0"});
  EXPECT_EQ(frontier.code, 0);
  EXPECT_THAT(frontier.out, HasSubstr("peak_bytes,peak_percent,time,extra_percent\n"));
  EXPECT_GT(std::count(frontier.out.begin(), frontier.out.end(), '\n'), 10);
  const std::string output = ::testing::TempDir() + "/frontier.csv";
  EXPECT_EQ(run({networkFile(), "--frontier", "--effort=0", "-o", output}).out, "");
  EXPECT_EQ(read(output), frontier.out);
}

TEST(RematCommandTest, OffersTheClassicMethods) {
  std::string chain = write("chain.json", schedule::print(schedule::unitChainStep(30)));
  for (const char *method : {"sqrt", "rotor", "revolve", "cut"}) {
    Outcome outcome = run({chain, "--memory-budget=60%", std::string("--method=") + method});
    EXPECT_EQ(outcome.code, 0) << method << ": " << outcome.err << outcome.out;
  }
  Outcome wrong = run({networkFile(), "--memory-budget=60%", "--method=rotor"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("needs a chain"));
}

// Tests that the proof closes the gap of a network whose cut bound is not tight.
TEST(RematCommandTest, ProvesOptimality) {
  std::string input =
      write("vgg.json",
            schedule::print(schedule::trainingStep(schedule::convolutionalForward("vgg19", 2))));
  Outcome outcome = run({input, "--memory-budget=90%", "--prove"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  if (schedule::phaseProgramAvailable())
    EXPECT_THAT(outcome.out, HasSubstr("status       optimal"));
}

// Tests that seconds can be given, and that they buy a proof that is not there without.
TEST(RematCommandTest, ProvesForSeconds) {
  std::string input = write(
      "mobilenet.json",
      schedule::print(schedule::trainingStep(schedule::convolutionalForward("mobilenet", 32))));
  Outcome plain = run({input, "--memory-budget=90%"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("% of the bound"));
  if (schedule::phaseProgramAvailable()) {
    Outcome proven = run({input, "--memory-budget=90%", "--prove=4"});
    EXPECT_EQ(proven.code, 0) << proven.err;
    EXPECT_THAT(proven.out, HasSubstr("status       optimal"));
  }
  Outcome wrong = run({input, "--memory-budget=90%", "--prove=soon"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("--prove: expected a number, found 'soon'"));
}

// Tests that a file with lanes is planned with copies: the schedule written is legal, within both
// memories, and the one that is reported.
TEST(RematCommandTest, PlansWithSlowMemory) {
  const schedule::Problem problem = schedule::unitChainStep(30);
  schedule::Lanes lanes;
  lanes.slowBytes = 20;
  const std::string input = write("lanes.json", schedule::print(problem, lanes));
  const std::string output = ::testing::TempDir() + "/steps.json";
  Outcome outcome = run({input, "--memory-budget=50%", "-o", output});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const schedule::LaneSolution solution = schedule::parseLaneSolution(read(output), problem);
  const schedule::LaneReplay replay = schedule::verify(problem, lanes, solution, 16);
  EXPECT_EQ(replay.fault, std::nullopt);
  EXPECT_GT(replay.bytesIn, 0);
  EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("hidden ", replay.hidden(), ", exposed ",
                                                  replay.exposed(), "\n")));
  EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("\ntime         ", replay.time, ", extra")));
  EXPECT_THAT(outcome.out, HasSubstr("\nrecomputed   alone: time "));
  EXPECT_THAT(outcome.out, HasSubstr("\ntime bound   "));
  EXPECT_THAT(outcome.out, HasSubstr("\nin that time "));
  Outcome json = run({input, "--memory-budget=50%", "--format=json"});
  EXPECT_THAT(json.out, HasSubstr(absl::StrCat("\"exposed\": ", replay.exposed(), ",")));
  EXPECT_EQ(run({input, "--memory-budget=50%", "-o", "-"}).out, read(output));
}

// Tests that flags give lanes to any graph, in units of its costs, and change those of a file.
TEST(RematCommandTest, TakesLanesFromFlags) {
  const std::string input = write("chain.json", schedule::print(schedule::unitChainStep(30)));
  Outcome fast = run({input, "--memory-budget=50%", "--bandwidth=2.5"});
  EXPECT_EQ(fast.code, 0) << fast.err;
  EXPECT_THAT(fast.out, HasSubstr("lane out     5 bytes in 2, latency 0\n"));
  EXPECT_THAT(fast.out, HasSubstr("status       optimal"));
  Outcome slow = run({input, "--memory-budget=50%", "--bandwidth=2.5", "--latency=1000"});
  EXPECT_THAT(slow.out, HasSubstr("travels      out 0 B"));
  schedule::Lanes lanes;
  const std::string file = write("lanes.json", schedule::print(schedule::unitChainStep(30), lanes));
  EXPECT_THAT(run({file, "--memory-budget=50%"}).out, HasSubstr("travels      out 0 B"))
      << "no room there";
  EXPECT_THAT(run({file, "--memory-budget=50%", "--slow-memory=64"}).out,
              ::testing::Not(HasSubstr("travels      out 0 B")));
  Outcome none = run({input, "--memory-budget=1", "--bandwidth=1"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no schedule fits the budget, with copies or without"));
}

TEST(RematCommandTest, NamesBadArguments) {
  EXPECT_EQ(run({"--help"}).code, 0);
  const std::string input = networkFile();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "no input file"},
      {{input}, "no --memory-budget"},
      {{input, "--memory-budget=lots"}, "as a byte count"},
      {{input, "--memory-budget=70%", "--method=magic"}, "unknown method \"magic\" for --method"},
      {{input, "--memory-budget=70%", "--format=xml"}, "unknown format \"xml\" for --format"},
      {{input, "--memory-budget=70%", "--effort=fast"},
       "--effort: expected a number, found 'fast'"},
      {{input, "--memory-budget=70%", "--speed"}, "unknown flag --speed"},
      {{input, "--memory-budget=70%", "-o"}, "-o needs a value: -o FILE"},
      {{input, "--memory-budget=70%", "-o", "/nonexistent/x.json"}, "cannot write"},
      {{input, "--frontier", "--memory-budget=70%"}, "--frontier plans every budget"},
      {{input, "--frontier", "--format=json"}, "--frontier plans every budget"},
      {{input, "--frontier", "--bandwidth=1"}, "plan without slow memory"},
      {{input, "--memory-budget=70%", "--bandwidth=1", "--prove"}, "plan without slow memory"},
      {{input, "--memory-budget=70%", "--latency=1"}, "need lanes, which this file has not"},
      {{input, "--memory-budget=70%", "--bandwidth=0"}, "--bandwidth: expected at least 1"},
      {{input, "--memory-budget=70%", "--bandwidth=fast"}, "--bandwidth: expected a number"},
      {{::testing::TempDir(), "--frontier"}, "it is a folder"},
      {{input, input, "--memory-budget=70%"}, "two input files"},
      {{"/nonexistent.json", "--memory-budget=70%"}, "cannot open '/nonexistent.json'"},
      {{write("broken.json", "{"), "--memory-budget=70%"}, "broken.json:1:2: not valid JSON"},
  };
  for (const auto &[arguments, message] : cases) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

} // namespace
} // namespace stow
