// The finished executable as users start it: a process of its own, linked from the runtime archive
// and the symbols that codegen emits.
#include "tests/runtime/data/DataFiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sys/wait.h>

namespace stow::test {
namespace {

using namespace testfiles;
using testing::HasSubstr;
using testing::StartsWith;

/// Runs the executable through the shell; returns exit code and all output.
std::pair<int, std::string> runModel(const std::string &arguments) {
  FILE *pipe = popen((std::string(TINY_MODEL) + " " + arguments + " 2>&1").c_str(), "r");
  std::string out;
  char block[4096];
  while (size_t size = std::fread(block, 1, sizeof(block), pipe))
    out.append(block, size);
  int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out};
}

const std::string digits = std::string(STOWAGE_SOURCE_DIR) + "/models/data/digits.npz";

TEST(ExecutableTest, TrainsEvaluatesAndExplains) {
  TempDir dir;
  std::string weights = dir.path("w.safetensors");
  auto [trainCode, trained] = runModel("train --data=" + digits + " --epochs=3 --save=" + weights);
  EXPECT_EQ(trainCode, 0) << trained;
  EXPECT_THAT(trained, HasSubstr("trained to step 132"));
  auto [evalCode, evaluated] = runModel("eval --data=" + digits + " --weights=" + weights);
  EXPECT_EQ(evalCode, 0) << evaluated;
  EXPECT_THAT(evaluated, StartsWith("test: loss"));
  auto [planCode, plan] = runModel("plan --format=json");
  EXPECT_EQ(planCode, 0);
  EXPECT_THAT(plan, StartsWith("{\n  \"format\": 2,\n  \"model\": \"tiny\",\n  \"arena_bytes\": "));
  auto [badCode, bad] = runModel("train --dta=x");
  EXPECT_EQ(badCode, 1);
  EXPECT_THAT(bad, HasSubstr("error: unknown flag --dta; did you mean --data?"));
}

// Tests a termination request from outside at an arbitrary moment: the process ends by itself with
// the code of the signal, and the run it leaves behind can be resumed to the very end.
TEST(ExecutableTest, TerminationSaves) {
  TempDir dir;
  std::string weights = dir.path("w.safetensors"), log = dir.path("run.csv"),
              whole = dir.path("whole.csv");
  std::string common = "train --data=" + digits + " --epochs=40 --validation-split=0 ";
  ASSERT_EQ(runModel(common + "--log=" + whole).first, 0);
  // On a busy machine a run may come to its end before the signal comes: then another one is sent.
  int exitCode = 0;
  for (int attempt = 0; attempt < 20 && exitCode == 0; ++attempt) {
    std::filesystem::remove(weights);
    std::filesystem::remove(log);
    pid_t child = fork();
    if (child == 0) {
      std::string command = std::string("exec ") + TINY_MODEL + " " + common + "--save=" + weights +
                            " --log=" + log + " >/dev/null";
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    // Some steps in, by the log.
    int status = 0;
    pid_t ended = 0;
    while (readFile(log).size() < 1000 && (ended = waitpid(child, &status, WNOHANG)) == 0)
      usleep(200);
    if (ended == 0) {
      kill(child, SIGTERM);
      waitpid(child, &status, 0);
    }
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_THAT(WEXITSTATUS(status), testing::AnyOf(0, 143));
    exitCode = WEXITSTATUS(status);
  }
  ASSERT_EQ(exitCode, 143) << "no run was terminated before its end";
  auto [code, out] = runModel("train --data=" + digits + " --resume --save=" + weights +
                              " --validation-split=0 --log=" + log);
  EXPECT_EQ(code, 0) << out;
  EXPECT_EQ(readFile(log), readFile(whole));
}

// Tests that training outlives the reader of its output.
TEST(ExecutableTest, ClosedPipeDoesNotStopTraining) {
  TempDir dir;
  std::string weights = dir.path("w.safetensors");
  std::string command = std::string(TINY_MODEL) + " train --data=" + digits +
                        " --epochs=20 --save=" + weights + " | head -n 1 >/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(std::filesystem::exists(weights));
}

} // namespace
} // namespace stow::test
