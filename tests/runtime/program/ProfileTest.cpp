// Profiles: what counts, how times add up, and the flag from end to end.
#include "runtime/program/Profile.h"

#include "runtime/base/Error.h"
#include "runtime/program/Cli.h"
#include "tests/runtime/base/CountAllocations.h"
#include "tests/runtime/data/DataFiles.h"
#include "tests/runtime/program/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

namespace stow::test {
namespace {

using testing::HasSubstr;
using testing::Not;

Command named(const std::string &kind, StepPhase phase, const std::string &name) {
  Command command;
  command.op = CommandOp::Kernel;
  command.kind = kind;
  command.phase = phase;
  command.name = name;
  return command;
}

GraphProgram threeCommands() {
  GraphProgram graph;
  graph.role = GraphRole::Train;
  graph.commands = {named("map", StepPhase::Forward, "relu1"),
                    named("map", StepPhase::Forward, "relu2"),
                    named("matmul", StepPhase::Backward, "fc")};
  graph.commands[2].flops = 2e6;
  graph.commands[2].bytes = 1e6;
  return graph;
}

/// One step whose commands sleep for the given milliseconds; how long the first slept, in milliseconds.
double step(Profile &profile, const std::vector<int> &milliseconds) {
  profile.beginStep();
  profile.beginRun();
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    auto begin = Profile::Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds[i]));
    profile.commandTimes()[i] = {
        std::chrono::duration<double>(Profile::Clock::now() - begin).count(), 0};
  }
  const double first = 1e3 * profile.commandTimes()[0].seconds;
  profile.endRun();
  profile.endStep();
  return first;
}

// Tests that a profile names the device, and of each command the kernels that it runs, where they have numbers.
TEST(Profile, NamesTheDeviceAndKernels) {
  GraphProgram graph = threeCommands();
  graph.commands[1].ints["kernels"] = {1234567890123456789, 7};
  Profile profile(graph, 1, 2);
  for (int i = 0; i < 2; ++i)
    step(profile, {0, 0, 0});
  const auto json = nlohmann::json::parse(profile.json("NVIDIA H200, driver 13.0"));
  EXPECT_EQ(json["device"], "NVIDIA H200, driver 13.0");
  EXPECT_EQ(json["commands"][1]["kernels"], (std::vector<int64_t>{1234567890123456789, 7}));
  EXPECT_FALSE(json["commands"][0].contains("kernels"));
  EXPECT_FALSE(nlohmann::json::parse(profile.json()).contains("device"));
}

// Tests that warm-up steps do not count and that the parts of a step add up to it.
TEST(Profile, CountsStepsAfterTheWarmUp) {
  GraphProgram graph = threeCommands();
  Profile profile(graph, 2, 4);
  step(profile, {0, 0, 0}); // a quarter of four steps is warm-up
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i)
    least = std::min(least, step(profile, {1, 2, 4}));
  auto json = nlohmann::json::parse(profile.json());
  EXPECT_EQ(json["steps"], 3);
  EXPECT_EQ(json["threads"], 2);
  ASSERT_EQ(json["commands"].size(), 3u);
  double sum = json["input_ms"].get<double>() + json["rest_ms"].get<double>(), mean = 0;
  for (const auto &command : json["commands"]) {
    sum += command["ms"].get<double>();
    EXPECT_LE(command["least_ms"], command["ms"].get<double>() * 1.0001);
  }
  ASSERT_EQ(json["step_ms"].size(), 3u);
  for (double ms : json["step_ms"])
    mean += ms / 3;
  EXPECT_NEAR(sum, mean, 1e-2);
  EXPECT_GE(json["commands"][2]["least_ms"], 4.0);
  EXPECT_NEAR(json["commands"][0]["least_ms"], least, 1e-3);
  EXPECT_EQ(json["commands"][2]["name"], "fc");
  EXPECT_EQ(json["commands"][2]["flops"], 2e6);
}

// Tests that the report sums by kind and phase and lists the slowest commands first.
TEST(Profile, ReportsKindsAndCommands) {
  GraphProgram graph = threeCommands();
  Profile profile(graph, 1, 1);
  step(profile, {5, 6, 30});
  std::string text = profile.text(2);
  EXPECT_THAT(text, HasSubstr("profile of 'train': 1 steps after 0 to warm up, 1 threads\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  map +2 "));
  EXPECT_THAT(text, testing::ContainsRegex("matmul, backward +1 "));
  // On a busy machine a short sleep may last longest: the measured times say who is listed.
  std::vector<std::pair<double, std::string>> slowest;
  const auto json = nlohmann::json::parse(profile.json());
  for (const auto &command : json["commands"])
    slowest.push_back({-command["ms"].get<double>(), command["name"].get<std::string>()});
  std::sort(slowest.begin(), slowest.end());
  ASSERT_EQ(slowest.size(), 3u);
  EXPECT_LT(text.find("  " + slowest[0].second + "\n"), text.find("  " + slowest[1].second + "\n"));
  EXPECT_THAT(text, HasSubstr("  " + slowest[1].second + "\n"));
  EXPECT_THAT(text, Not(HasSubstr(slowest[2].second))); // the third of two rows
}

/// A plan of threeCommands whose commands take 1, 2 and 4 ms.
Plan planOfThree() {
  Plan plan;
  plan.model = "three";
  plan.stepSeconds = 0.007;
  plan.costSource = "roofline of cpu";
  GraphPlan train;
  train.role = GraphRole::Train;
  train.stepCount = 3;
  for (double seconds : {0.001, 0.002, 0.004}) {
    train.steps.emplace_back();
    train.steps.back().name = "step";
    train.steps.back().seconds = seconds;
  }
  plan.graphs = {train};
  return plan;
}

// Tests that planned times stand beside the measured ones, where there is a plan of these commands.
TEST(Profile, PlannedTimes) {
  GraphProgram graph = threeCommands();
  Plan plan = planOfThree();
  Profile profile(graph, 1, 1, &plan);
  step(profile, {1, 1, 1});
  EXPECT_THAT(profile.text(3), HasSubstr("planned: 7.0000 ms per step, roofline of cpu"));
  EXPECT_THAT(profile.text(3), testing::ContainsRegex("matmul, backward +1 +[0-9.]+ +4\\.0000 "));
  EXPECT_THAT(profile.text(3), testing::ContainsRegex("\n  map +2 +[0-9.]+ +3\\.0000 "));
  const auto json = nlohmann::json::parse(profile.json());
  EXPECT_EQ(json["commands"][1]["planned_ms"], 2.0);

  plan.graphs[0].steps.pop_back(); // of another program
  Profile other(graph, 1, 1, &plan);
  step(other, {0, 0, 0});
  EXPECT_FALSE(nlohmann::json::parse(other.json())["commands"][1].contains("planned_ms"));
  EXPECT_THROW(other.perfetto(), Error);
}

// Tests that the trace holds the measured clock and the planned one.
TEST(Profile, Perfetto) {
  GraphProgram graph = threeCommands();
  const Plan plan = planOfThree();
  Profile profile(graph, 1, 1, &plan);
  EXPECT_THROW(profile.perfetto(), Error); // no step has run
  step(profile, {2, 2, 20});
  const auto json = nlohmann::json::parse(profile.json());
  const auto trace = nlohmann::json::parse(profile.perfetto());
  std::vector<double> durations;
  std::vector<std::string> names;
  for (const auto &event : trace["traceEvents"]) {
    if (event["ph"] == "X")
      durations.push_back(event["dur"]);
    if (event["name"] == "process_name")
      names.push_back(event["args"]["name"]);
  }
  ASSERT_EQ(durations.size(), 6u);
  EXPECT_NEAR(durations[2], 1e3 * json["commands"][2]["ms"].get<double>(), 0.01);
  EXPECT_EQ(durations[5], 4000.0);
  EXPECT_THAT(names, testing::ElementsAre("three: train, measured: mean of 1 steps",
                                          "three: train, planned"));
}

// Tests that the report of a graph that never ran says so.
TEST(Profile, SaysWhenNothingHasRun) {
  GraphProgram graph = threeCommands();
  Profile profile(graph, 1, 8);
  step(profile, {0, 0, 0}); // warm-up
  EXPECT_EQ(profile.text(5),
            "profile of 'train': no step has run after those to warm up; raise --steps\n");
  EXPECT_EQ(nlohmann::json::parse(profile.json())["steps"], 0);
}

// Tests that measuring allocates nothing.
TEST(Profile, AllocatesNothingWhileMeasuring) {
  GraphProgram graph = threeCommands();
  Profile profile(graph, 1, 100);
  int64_t before = allocationsSoFar().calls;
  std::vector<int> none = {0, 0, 0};
  int64_t own = allocationsSoFar().calls - before;
  before = allocationsSoFar().calls;
  for (int i = 0; i < 100; ++i)
    step(profile, none);
  EXPECT_EQ(allocationsSoFar().calls - before, 0);
  EXPECT_TRUE(own > 0 || !allocationsAreCounted());
}

// Tests that --profile leaves the training as it is and writes its report.
TEST(Profile, IsAFlagOfTrain) {
  testfiles::TempDir dir;
  Program program = makeTinyModel({});
  auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"./model", "train", "--steps=40",
                                      "--data=" + std::string(STOWAGE_SOURCE_DIR) +
                                          "/models/data/digits.npz"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char *> argv;
    for (std::string &word : words)
      argv.push_back(word.data());
    testing::internal::CaptureStdout();
    EXPECT_EQ(stowMain(static_cast<int>(argv.size()), argv.data(), program, tinyImage()), 0);
    return testing::internal::GetCapturedStdout();
  };
  auto contents = [](const std::string &path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::string plain = dir.path("plain.csv"), profiled = dir.path("profiled.csv");
  EXPECT_THAT(train({"--log=" + plain}), Not(HasSubstr("profile")));
  std::string out = train({"--log=" + profiled, "--profile=" + dir.path("p.json")});
  EXPECT_EQ(contents(plain), contents(profiled));
  EXPECT_THAT(out, HasSubstr("profile of 'train': 37 steps after 3 to warm up"));
  auto json = nlohmann::json::parse(contents(dir.path("p.json")));
  EXPECT_EQ(json["steps"], 37);
  EXPECT_EQ(json["commands"].size(), program.graphs[0].commands.size());
  EXPECT_EQ(json["commands"][0]["kind"], "tiny");
  train({"--profile=" + dir.path("p.trace"), "--profile-format=perfetto"});
  EXPECT_TRUE(nlohmann::json::parse(contents(dir.path("p.trace"))).contains("traceEvents"));
}

} // namespace
} // namespace stow::test
