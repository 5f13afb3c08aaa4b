// Runs of a program whose buffers travel to slow memory: losses, reports, and what can go wrong with a folder.
#include "runtime/program/Cli.h"

#include "runtime/base/Concat.h"
#include "runtime/data/Safetensors.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/program/Instance.h"
#include "tests/runtime/base/CountAllocations.h"
#include "tests/runtime/data/DataFiles.h"
#include "tests/runtime/program/TinyModel.h"
#include "tests/runtime/slow/DiskFolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>

namespace stow::test {
namespace {

using namespace testfiles;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Result {
  int code = 0;
  std::string out, err;
};

class OffloadTest : public testing::Test {
protected:
  void SetUp() override { program.slowFolder = folder.path(); }
  void TearDown() override { afterTinyStep = nullptr; }

  Result run(const Program &program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "./model");
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Result result;
    result.code = stowMain(static_cast<int>(argv.size()), argv.data(), program, tinyImage());
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }

  Result train(const Program &program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"train", "--data=" + digits, "--validation-split=0"});
    return run(program, std::move(arguments));
  }

  /// Losses and weights after 20 steps.
  std::string trained(const Program &program, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--steps=20", "--log=" + log, "--save=" + weights});
    const Result result = train(program, arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return readFile(log) + readFile(weights);
  }

  /// The plan says of each copy that it takes 125 ms, and that its await waits twice as long.
  void planCopies() {
    Plan &plan = program.plan;
    plan.extraTimeFraction = 0.125;
    plan.extraTimeBound = 0.0625;
    PlannedCopies copies{9472, 9472, 0.25, 0.5, 9472};
    const std::vector<Command> &commands = program.graphs[0].commands;
    for (size_t i = 0; i < commands.size(); ++i) {
      if (commands[i].op == CommandOp::AwaitCopy)
        plan.graphs[0].steps[i].seconds = 0.25;
      else if (isOfCopy(commands[i]))
        copies.each.push_back({concat("tensor ", copies.each.size()),
                               commands[i].op == CommandOp::CopyOut, 0, 0, static_cast<int64_t>(i),
                               0, 0, 0.125});
    }
    plan.graphs[0].copies = copies;
  }

  TempDir dir;
  DiskFolder folder;
  std::string digits = std::string(STOWAGE_SOURCE_DIR) + "/models/data/digits.npz";
  Program program = makeTinyModel({.travels = true});
  std::string weights = dir.path("w.safetensors"), log = dir.path("run.csv");
};

// Tests that what travels changes no bit, whenever its bytes move, also where buffers die behind their copies, and
// that it leaves nothing in the folder.
TEST_F(OffloadTest, ChangesNothing) {
  const std::string expected = trained(makeTinyModel({}), {});
  EXPECT_EQ(trained(program, {}), expected);
  EXPECT_EQ(trained(program, {"--poison"}), expected);
  EXPECT_EQ(trained(program, {"--threads=1", "--poison"}), expected);
  EXPECT_EQ(trained(program, {"--check=early-copies", "--poison"}), expected);
  EXPECT_EQ(trained(program, {"--check=late-copies", "--poison"}), expected);
  EXPECT_EQ(trained(program, {"--check=canaries"}), expected);
  EXPECT_EQ(trained(program, {"--offload-bandwidth=0.5,1,150"}), expected);
  EXPECT_TRUE(folder.isEmpty());
}

// Tests that state that lies in slow memory has the values that it has in the arena, beside buffers that travel and alone, that a
// run is saved and goes on, and that an evaluation needs none of it.
TEST_F(OffloadTest, StateLiesInSlowMemory) {
  const std::string expected = trained(makeTinyModel({}), {});
  for (bool travels : {false, true}) {
    program = makeTinyModel({.travels = travels, .hasStateAway = true});
    program.slowFolder = folder.path();
    for (const std::string how :
         {"--quiet", "--poison", "--check=early-copies", "--check=late-copies", "--check=canaries"})
      EXPECT_EQ(trained(program, {how}), expected) << how;
    EXPECT_EQ(trained(program, {"--check=late-copies", "--poison"}), expected);
    const std::string whole = readFile(weights), part = dir.path("part.safetensors");
    ASSERT_EQ(train(program, {"--steps=9", "--save=" + part}).code, 0);
    ASSERT_EQ(train(program, {"--steps=20", "--resume=" + part, "--save=" + part}).code, 0);
    EXPECT_EQ(readFile(part), whole);
  }
  program.slowFolder = "/nonexistent";
  const Result evaluated = run(program, {"eval", "--data=" + digits, "--weights=" + weights});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("test: loss "));
  EXPECT_TRUE(folder.isEmpty());
}

// Tests that steps whose state is fetched and sent call the allocator no more often than others.
TEST_F(OffloadTest, StepsWithStateAwayDoNotAllocate) {
  if (!allocationsAreCounted())
    GTEST_SKIP() << "a sanitizer has replaced the allocator";
  program = makeTinyModel({.travels = true, .hasStateAway = true});
  program.slowFolder = folder.path();
  int64_t first = 0, last = 0;
  afterTinyStep = [&](int64_t step) { (step == 1 ? first : last) = allocationsSoFar().calls; };
  EXPECT_EQ(train(program, {"--steps=40", "--quiet", "--log=" + log}).code, 0);
  EXPECT_EQ(last, first);
}

// Tests that a step which fetches frozen state twice, beside whatever else travels, has the losses of one with all of it in the
// arena, and calls the allocator no more often; and that evaluations fetch it.
TEST_F(OffloadTest, StepsThatFetchFrozenStateDoNotAllocate) {
  trained(makeTinyModel({}), {});
  const std::string expected = readFile(log);
  for (bool others : {false, true}) {
    program = makeTinyModel({.travels = others, .hasStateAway = others, .hasFrozenAway = true});
    program.slowFolder = folder.path();
    for (const std::string how :
         {"--quiet", "--poison", "--check=early-copies", "--check=late-copies"}) {
      trained(program, {how});
      EXPECT_EQ(readFile(log), expected) << how;
    }
    const Result evaluated = run(program, {"eval", "--data=" + digits, "--weights=" + weights});
    EXPECT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_EQ(run(makeTinyModel({}), {"eval", "--data=" + digits, "--weights=" + weights})
                  .out.substr(0, 40),
              evaluated.out.substr(0, 40));
    if (!allocationsAreCounted())
      continue;
    int64_t first = 0, last = 0;
    afterTinyStep = [&](int64_t step) { (step == 1 ? first : last) = allocationsSoFar().calls; };
    EXPECT_EQ(train(program, {"--steps=40", "--quiet", "--log=" + log}).code, 0);
    EXPECT_GT(first, 0);
    EXPECT_EQ(last, first);
    afterTinyStep = nullptr;
  }
}

// Tests that the folder of the run goes before the program's, and that the run says what has travelled.
TEST_F(OffloadTest, SaysWhatHasTravelled) {
  program.slowFolder = "/nonexistent";
  const Result result = train(program, {"--steps=3", "--offload=" + folder.path()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nslow memory: a file in '" + folder.path() +
                                    "' of 12.00 KiB (12288 bytes)\n"));
  EXPECT_THAT(result.out, HasSubstr("\nslow memory: 27.75 KiB (28416 bytes) out and 27.75 KiB "
                                    "(28416 bytes) in, a file in '" +
                                    folder.path() + "' of 12.00 KiB\n"));
  EXPECT_THAT(train(makeTinyModel({}), {"--steps=3"}).out, Not(HasSubstr("slow memory")));
}

// Tests that a model in the hands of a host program travels in the folder that its options name, with the losses of
// one that stays.
TEST_F(OffloadTest, InstancesTravel) {
  const TinyOptions small{.batch = 4, .features = 8, .classes = 3};
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i % 7) / 7 - 0.4f;
  const std::vector<int64_t> y = {0, 2, 1, 2};
  const HostArray batch[] = {{x.data(), {ElementType::Kind::Float, 4}, {4, 8}},
                             {y.data(), {ElementType::Kind::Signed, 8}, {4}}};
  auto lossesOf = [&](const Program &program, const ExecutorOptions &options) {
    Instance instance(program, tinyImage(), 3, options);
    std::vector<double> losses;
    for (int step = 0; step < 5; ++step)
      losses.push_back(instance.step(batch));
    return losses;
  };
  TinyOptions away = small;
  away.travels = true;
  Program travels = makeTinyModel(away);
  EXPECT_THROW(lossesOf(travels, {}), Error);
  travels.slowFolder = "/nonexistent";
  EXPECT_THROW(lossesOf(travels, {}), Error);
  ExecutorOptions options;
  options.slow.folder = folder.path();
  const std::vector<double> losses = lossesOf(travels, options);
  EXPECT_EQ(losses, lossesOf(makeTinyModel(small), {}));
  EXPECT_LT(losses.back(), losses.front());
}

// Tests that an evaluation, in which nothing travels, asks for no folder and gives what it gives without copies, and
// that it takes no flag that would have no effect.
TEST_F(OffloadTest, EvaluationNeedsNoFolder) {
  trained(program, {});
  program.slowFolder = "/nonexistent";
  const std::vector<std::string> eval = {"eval", "--data=" + digits, "--weights=" + weights};
  auto lineOf = [](const Result &result) { return result.out.substr(0, result.out.find('\n')); };
  const Result expected = run(makeTinyModel({}), eval), found = run(program, eval);
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("test: loss "));
  EXPECT_EQ(lineOf(found), lineOf(expected));
  std::vector<std::string> checked = eval;
  checked.push_back("--check=canaries");
  EXPECT_EQ(lineOf(run(program, checked)), lineOf(expected));
  for (const std::string flag : {"--offload", "--offload-bandwidth", "--check=late-copies"}) {
    std::vector<std::string> arguments = eval;
    arguments.push_back(flag == "--offload"             ? "--offload=" + folder.path()
                        : flag == "--offload-bandwidth" ? flag + "=1"
                                                        : flag);
    const Result refused = run(program, arguments);
    EXPECT_EQ(refused.code, 1) << refused.out;
    EXPECT_EQ(refused.err, "error: " + flag +
                               " is about buffers that travel to slow memory, and in an evaluation "
                               "of this program none does; leave the flag out\n");
  }
}

// Tests that a profile has the lanes' times beside those that the commands waited, and the predicted ones.
TEST_F(OffloadTest, ProfilesCopies) {
  planCopies();
  const std::string file = dir.path("profile.json");
  const Result result = train(program, {"--steps=8", "--profile=" + file});
  ASSERT_EQ(result.code, 0) << result.err;
  // Of both directions: MiB, ms, planned, waited, planned, GB/s, planned.
  EXPECT_THAT(result.out, ContainsRegex("\n  copy_out +2 +0\\.009 +[0-9.]+ +250\\.0000 +[0-9.]+ "
                                        "+500\\.0000 +[0-9.]+ +0\\.000\n"));
  EXPECT_THAT(result.out,
              HasSubstr("  planned: 500.0000 ms of waiting beside 250.0000 ms that are hidden; "
                        "12.5 % more time in all, and no plan in this memory takes less than "
                        "6.2 %\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n  copy_in +[0-9]+ +0\\.0.. .* tensor 3\n"));
  const auto said = nlohmann::json::parse(readFile(file));
  const auto copies = said["copies"];
  ASSERT_EQ(copies.size(), 4u);
  EXPECT_EQ(copies[1]["tensor"], "tensor 1");
  EXPECT_EQ(copies[1]["planned_ms"], 125);
  EXPECT_EQ(copies[1]["planned_waited_ms"], 250);
  EXPECT_GE(copies[1]["waited_ms"], 0);
  EXPECT_EQ(said["planned_copies"], (nlohmann::json{{"exposed_ms", 500.0},
                                                    {"hidden_ms", 250.0},
                                                    {"extra_time_fraction", 0.125},
                                                    {"extra_time_bound_fraction", 0.0625}}));
  EXPECT_EQ(copies[1]["kind"], "copy_out");
  EXPECT_EQ(copies[1]["name"], "the gradient");
  EXPECT_EQ(copies[1]["bytes"], 1280);
  EXPECT_GT(copies[3]["least_ms"], 0);
}

// Tests that steps with copies call the allocator no more often than without.
TEST_F(OffloadTest, StepsDoNotAllocate) {
  if (!allocationsAreCounted())
    GTEST_SKIP() << "a sanitizer has replaced the allocator";
  int64_t first = 0, last = 0;
  afterTinyStep = [&](int64_t step) { (step == 1 ? first : last) = allocationsSoFar().calls; };
  EXPECT_EQ(train(program, {"--steps=40", "--quiet", "--log=" + log}).code, 0);
  EXPECT_EQ(last, first);
}

// Tests that folders that cannot hold what travels, and flags without effect, are refused.
TEST_F(OffloadTest, RefusesFolders) {
  const Program stays = makeTinyModel({});
  auto errorOf = [&](const Program &program, const std::string &flag,
                     const std::string &other = "--seed=0") {
    const Result result = train(program, {"--steps=3", flag, other});
    EXPECT_EQ(result.code, 1) << result.out;
    return result.err;
  };
  EXPECT_THAT(
      errorOf(program, "--offload=/nonexistent"),
      HasSubstr("error: cannot make the file of slow memory in '/nonexistent': No such file "
                "or directory; name a folder on a disk with room: --offload=FOLDER"));
  EXPECT_THAT(errorOf(stays, "--offload=" + folder.path()),
              HasSubstr("error: --offload is about buffers that travel to slow memory, and of this "
                        "program none does"));
  EXPECT_THAT(errorOf(stays, "--offload-bandwidth=1"),
              HasSubstr("error: --offload-bandwidth is about buffers"));
  EXPECT_THAT(errorOf(stays, "--check=late-copies"),
              HasSubstr("error: --check=late-copies is about buffers"));
  for (const std::string check :
       {"--check=early-copies", "--check=late-copies", "--check=canaries"})
    EXPECT_THAT(errorOf(program, "--offload-bandwidth=1", check),
                HasSubstr("error: --offload-bandwidth holds copies back that are made beside the "
                          "step, and with " +
                          check + " none is; leave one of them out"));
  EXPECT_THAT(errorOf(program, "--offload-bandwidth=0"),
              HasSubstr("error: --offload-bandwidth: expected gigabytes a second out and in"));
  EXPECT_THAT(errorOf(program, "--offload-bandwidth=1,2,3,4"), HasSubstr("as 2.5 or 1.2,2.5"));
  EXPECT_THAT(errorOf(program, "--check=copies"), HasSubstr("early-copies, late-copies"));
  program.slowFolder.clear();
  EXPECT_THAT(errorOf(program, "--quiet"),
              HasSubstr("error: buffers of this program travel to 12.00 KiB (12288 bytes) of slow "
                        "memory, and no folder is named for it; name one on a disk: "
                        "--offload=FOLDER"));
}

// Tests that a disk that fails ends the step with one error that names file, node and what was found, and that the
// save before it stays as it is.
TEST_F(OffloadTest, AFailingDiskEndsTheStep) {
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  auto *const previous = std::signal(SIGXFSZ, SIG_IGN);
  afterTinyStep = [&](int64_t step) {
    const rlimit tight = {4096, before.rlim_max};
    if (step == 5)
      setrlimit(RLIMIT_FSIZE, &tight);
  };
  const Result result = train(program, {"--steps=9", "--save=" + weights, "--save-every=3"});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("error: in step 6: copy_out of node 'the batch': slow memory in '" +
                              folder.path() +
                              "': expected to write 8192 bytes at 0, found 4096: File "
                              "too large; "),
                    HasSubstr("the save after step 3 is intact: go on with --resume")));
  EXPECT_EQ(SafetensorsFile(weights).metadata().at("step"), "3");
}

// Tests that a killed run leaves nothing in the folder, and that a run that is stopped ends with its step.
TEST_F(OffloadTest, EndsLeaveNothingBehind) {
  const pid_t child = fork();
  if (child == 0) {
    afterTinyStep = [](int64_t step) {
      if (step == 4)
        kill(getpid(), SIGKILL);
    };
    train(program, {"--steps=9", "--threads=1"});
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_TRUE(folder.isEmpty());
  afterTinyStep = [](int64_t step) {
    if (step == 4)
      std::raise(SIGTERM);
  };
  const Result result = train(program, {"--steps=9", "--save=" + weights});
  EXPECT_EQ(result.code, 128 + SIGTERM) << result.err;
  EXPECT_EQ(SafetensorsFile(weights).metadata().at("step"), "4");
  EXPECT_TRUE(folder.isEmpty());
}

} // namespace
} // namespace stow::test
